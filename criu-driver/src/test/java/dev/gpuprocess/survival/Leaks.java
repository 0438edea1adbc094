package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Finds resources that this JVM leaks. */
final class Leaks {

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final List<String> filesBefore = files();

  /** Opens everything that stays open from its first use on: NVML keeps a device file. */
  static void open(GpuCheckpoints checkpoints) {
    checkpoints.gpus().gpus();
  }

  /** Returns the leaks. Waits for resources that are about to be released. */
  List<String> left(Path temporary) {
    Waiting.until(PATIENCE, () -> now(temporary).isEmpty());
    return now(temporary);
  }

  private List<String> now(Path temporary) {
    List<String> left = new ArrayList<>();
    if (GpuCheckpoints.abandonedCalls() > 0) {
      left.add(GpuCheckpoints.abandonedCalls() + " abandoned calls");
    }
    Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith("gpuprocess") && !name.equals("gpuprocess idle"))
        .forEach(name -> left.add("thread " + name));
    List<String> files = files();
    filesBefore.forEach(files::remove);
    files.forEach(file -> left.add("descriptor of " + file));
    SimulatedMachine.names(temporary)
        .forEach(name -> left.add("temporary " + content(temporary, name)));
    ProcessHandle.current()
        .children()
        .map(ProcessHandle::pid)
        .filter(Leaks::isZombie)
        .forEach(pid -> left.add("zombie " + pid));
    return left;
  }

  private static String content(Path temporary, String name) {
    Path path = temporary.resolve(name);
    return Files.isDirectory(path) ? name + " with " + SimulatedMachine.names(path) : name;
  }

  private static boolean isZombie(long pid) {
    return ProcFs.stat(pid).map(stat -> stat.isDead()).orElse(false);
  }

  /** Sockets and pipes have numbers, which differ from one to the next. */
  private static List<String> files() {
    return new ArrayList<>(
        ProcFs.openFiles(ProcessHandle.current().pid()).stream()
            .map(OpenFile::target)
            .map(target -> target.replaceAll("\\[\\d+]", ""))
            // Opened when first needed, once.
            .filter(target -> !target.endsWith(".jar") && !target.startsWith("/dev/"))
            .toList());
  }
}
