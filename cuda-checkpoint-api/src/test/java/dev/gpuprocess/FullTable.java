package dev.gpuprocess;

import dev.gpuprocess.report.ProcessIdentity;
import java.io.FileInputStream;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * A controller, in a JVM of its own, that has as many files open as it may have when it brings a
 * process back. Says on its output how each thing it tries ends.
 */
final class FullTable {

  private final List<FileInputStream> files = new ArrayList<>();
  private final GpuCheckpoints checkpoints;
  private final long pid;
  private final Path state;

  private FullTable(GpuCheckpoints checkpoints, long pid, Path state) {
    this.checkpoints = checkpoints;
    this.pid = pid;
    this.state = state;
  }

  /** Machine, state directory, pid. */
  public static void main(String[] args) throws IOException, ReflectiveOperationException {
    loadAll();
    Path machine = Path.of(args[0]);
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder().cuda(machine).stateDirectory(Path.of(args[1])).build();
    new FullTable(checkpoints, Long.parseLong(args[2]), Path.of(args[1])).run();
  }

  /** A class that is not in an open jar cannot be loaded later. */
  private static void loadAll() throws IOException, ReflectiveOperationException {
    Path classes =
        Path.of(
            URI.create(
                GpuProcess.class.getProtectionDomain().getCodeSource().getLocation().toString()));
    if (Files.isDirectory(classes)) {
      try (Stream<Path> all = Files.walk(classes)) {
        for (Path file : all.filter(each -> each.toString().endsWith(".class")).toList()) {
          String name = classes.relativize(file).toString().replace('/', '.');
          if (!name.equals("module-info.class")) {
            Class.forName(name.substring(0, name.length() - ".class".length()));
          }
        }
      }
    }
  }

  private void run() throws IOException {
    checkpoints.process(pid).suspend().close();
    attemptWithoutFiles("warm up", () -> checkpoints.inspect(pid));
    empty();
    CheckpointedProcess suspended = checkpoints.process(pid).suspend();
    attemptWithoutFiles("close suspended", suspended::close);
    attemptWithoutFiles("inspect", () -> checkpoints.inspect(pid));
    attemptWithoutFiles("identity", () -> ProcessIdentity.of(pid));
    attemptWithoutFiles("recover", checkpoints::recover);
    empty();
    say("entries", entries());
    say("state", checkpoints.inspect(pid).state().name());
    attempt("close again", suspended::close);
    say("state", checkpoints.inspect(pid).state().name());
    LockedProcess locked = checkpoints.process(pid).lock();
    attemptWithoutFiles("close locked", locked::close);
    empty();
    say("entries", entries());
    say("state", checkpoints.inspect(pid).state().name());
    attempt("close again", locked::close);
    say("state", checkpoints.inspect(pid).state().name());
    say("entries", entries());
  }

  private String entries() throws IOException {
    try (Stream<Path> entries = Files.list(state)) {
      String name = ".*/(.*-)?" + pid + "-\\d+[.]process";
      return Long.toString(entries.filter(each -> each.toString().matches(name)).count());
    }
  }

  /** The table is filled each time, as something in the JVM may have closed a file. */
  private void attemptWithoutFiles(String what, Runnable body) {
    fill();
    attempt(what, body);
  }

  private static void attempt(String what, Runnable body) {
    try {
      body.run();
      say(what, "returned");
    } catch (RuntimeException | Error e) {
      say(what, e.getClass().getSimpleName() + ": " + e.getMessage());
    }
  }

  private static void say(String what, String how) {
    System.out.println(what + ": " + how);
  }

  private void fill() {
    try {
      while (true) {
        files.add(new FileInputStream("/dev/null"));
      }
    } catch (IOException full) {
      // As many as there can be.
      return;
    }
  }

  private void empty() throws IOException {
    for (FileInputStream file : files) {
      file.close();
    }
    files.clear();
  }
}
