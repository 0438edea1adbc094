package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** Starts the command of a job on this node: from its begin, or from its newest image. */
final class JobStart {

  private static final Duration MEMORY_WAIT = Duration.ofMinutes(2);

  private final GpuCheckpoints machine;
  private final SlurmJob job;
  private final JobRun.Settings settings;
  private final JobDirectory directory;
  private final ImageStore store;
  private final Consumer<String> log;

  JobStart(
      GpuCheckpoints machine,
      SlurmJob job,
      JobRun.Settings settings,
      JobDirectory directory,
      ImageStore store,
      Consumer<String> log) {
    this.machine = machine;
    this.job = job;
    this.settings = settings;
    this.directory = directory;
    this.store = store;
    this.log = log;
  }

  /**
   * Launches the command from its begin.
   *
   * @return the process
   * @throws GpuCheckpointException if it cannot be launched
   */
  LaunchedProcess launch() {
    List<String> command = settings.command();
    LaunchOptions.Builder options =
        LaunchOptions.builder(
                command.get(0), command.subList(1, command.size()).toArray(String[]::new))
            .isolated(settings.isolated());
    Path out = outputOf(1);
    options.output(Redirect.appendTo(out.toFile()));
    Path err = outputOf(2);
    if (!err.equals(out)) {
      options.error(Redirect.appendTo(err.toFile()));
    }
    LaunchedProcess process = machine.launch(options.build());
    log.accept(
        "job %s launched process %s on %s%s"
            .formatted(
                job.id(),
                process.identity().pid(),
                job.node(),
                job.restarts() > 0 ? ", as there is no image of its earlier runs" : ""));
    return process;
  }

  /** A file can be opened again on another node; a pipe or a terminal cannot. */
  private Path outputOf(int descriptor) {
    try {
      Path target = Files.readSymbolicLink(Path.of("/proc/self/fd/" + descriptor));
      if (target.isAbsolute() && Files.isRegularFile(target)) {
        return target;
      }
    } catch (IOException e) {
      log.accept("descriptor %s cannot be read: %s".formatted(descriptor, e.getMessage()));
    }
    log.accept(
        "descriptor %s is not a file: the output of the command goes to %s"
            .formatted(descriptor, directory.output()));
    return directory.output();
  }

  /**
   * Restores the command from the newest image that can be used, on the GPUs of the job.
   *
   * @return the process
   * @throws GpuCheckpointException if no image can be restored on this node
   */
  LaunchedProcess restore() {
    long began = System.nanoTime();
    List<ProcessImage> used = new ArrayList<>();
    LaunchedProcess process =
        store.withNewest(
            image -> {
              used.add(image);
              return image.launch(
                  RestoreOptions.builder().expectLabel(job.name()).build(),
                  ResumeOptions.builder()
                      .gpus(GpuMap.automatic(gpus()))
                      .waitForMemory(MEMORY_WAIT)
                      .build());
            },
            skipped -> log.accept("skipped " + skipped));
    log.accept(
        "job %s restored process %s on %s from %s in %s"
            .formatted(
                job.id(),
                process.identity().pid(),
                job.node(),
                used.get(used.size() - 1).directory().getFileName(),
                JobRun.since(began)));
    return process;
  }

  /**
   * Other GPUs of the node may be those of other jobs, even where they have room. CUDA numbers the
   * GPUs that this process sees, and so does NVML.
   */
  private List<GpuUuid> gpus() {
    List<GpuUuid> own = new ArrayList<>();
    GpuReading seen =
        machine.gpus().read().orElseGet(() -> new GpuReading(List.of(), List.of("no NVML")));
    for (int i = 0; i < seen.gpus().size(); i++) {
      GpuUuid uuid = seen.gpus().get(i).uuid();
      boolean isNumbered = seen.unreadable().isEmpty() && job.gpus().contains(Integer.toString(i));
      if (isNumbered || job.gpus().contains(uuid.text())) {
        own.add(uuid);
      }
    }
    if (own.isEmpty() && !job.gpus().isEmpty()) {
      log.accept("may use each GPU that it sees, as NVML does not know those of the job");
    }
    return own;
  }
}
