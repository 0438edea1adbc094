package dev.gpuprocess.criu;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.contract.SaveAreaMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** A controller that launches a process from its image, and is killed or exits. */
final class ImageController {

  private ImageController() {}

  /**
   * Launches the process.
   *
   * @param args {@code stay}, {@code survive} or {@code halt}, a file for the pids, the machine,
   *     the state directory and the image
   */
  public static void main(String[] args) {
    Path started = Path.of(args[1]);
    GpuCheckpoints.Builder builder =
        GpuCheckpoints.builder()
            .cuda(Path.of(args[2]))
            .hostMemory(HostMemory.in(SaveAreaMemory.directory()))
            .stateDirectory(Path.of(args[3]));
    Path image = Path.of(args[4]);
    if (args[0].equals("halt")) {
      builder.listener(new Halting(image, started));
    }
    RestoreOptions restore =
        RestoreOptions.builder().survivesExit(args[0].equals("survive")).build();
    LaunchedProcess process =
        builder.build().open(image).launch(restore, ResumeOptions.ofDefaults());
    write(process.identity().pid(), started);
    while (true) {
      LockSupport.park(); // until it is killed
    }
  }

  /** Writes the pids and start times of a tree. */
  private static void write(int root, Path file) {
    List<String> lines =
        Stream.concat(Stream.of(root), ProcFs.descendants(root).stream())
            .flatMap(pid -> ProcessIdentity.of(pid).stream())
            .map(each -> each.pid() + " " + each.startTicks())
            .toList();
    try {
      Path half = file.resolveSibling("half");
      Files.write(half, lines);
      Files.move(half, file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Ends the controller when CRIU has restored the process, which is not resumed yet. */
  private record Halting(Path image, Path started) implements StepListener {

    @Override
    public void finished(Step step) {
      if (step.name().equals("criu restore")) {
        write(GpuCheckpoints.standard().open(image).manifest().pid(), started);
        Runtime.getRuntime().halt(1);
      }
    }
  }
}
