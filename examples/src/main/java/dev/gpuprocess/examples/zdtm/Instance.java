package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A test program at work. It prepares itself, waits until it is told to look ({@code SIGTERM}), and
 * writes {@code PASS} into a file if nothing has changed for it.
 */
final class Instance implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofSeconds(20);
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  /** An option that its usage does not put into brackets. */
  private static final Pattern NEEDED = Pattern.compile("^  --(\\w+)=", Pattern.MULTILINE);

  private final int pid;
  private final Path result;

  private Instance(int pid, Path result) {
    this.pid = pid;
    this.result = result;
  }

  /**
   * Starts a program and waits until it is prepared.
   *
   * @param place a directory of its own
   */
  static Instance start(Program program, Path place) throws FailedException, NotHereException {
    Path result = place.resolve("test.out");
    Path pidFile = place.resolve("test.pid");
    try {
      List<String> arguments =
          new ArrayList<>(List.of("--pidfile=" + pidFile, "--outfile=" + result));
      Matcher needed = NEEDED.matcher(run(program, place, List.of("--help")).printed());
      while (needed.find()) {
        String name = needed.group(1);
        if (!name.equals("pidfile") && !name.equals("outfile")) {
          arguments.add("--" + name + "=" + place.resolve("test." + name));
        }
      }
      Ended ended = run(program, place, arguments);
      if (ended.exit() != 0 || !Files.exists(pidFile)) {
        throw new NotHereException("does not start: " + lastLine(result));
      }
      return new Instance(Integer.parseInt(Files.readString(pidFile).strip()), result);
    } catch (IOException e) {
      throw new FailedException("it cannot be started: " + e.getMessage(), e);
    }
  }

  private record Ended(int exit, String printed) {}

  /** Runs the program until its first process ends. */
  private static Ended run(Program program, Path place, List<String> arguments)
      throws IOException, FailedException {
    Path printed = place.resolve("printed");
    List<String> command = new ArrayList<>(List.of(program.file().toString()));
    command.addAll(arguments);
    Process process =
        new ProcessBuilder(command)
            .directory(place.toFile())
            .redirectInput(new File("/dev/null"))
            .redirectErrorStream(true)
            .redirectOutput(printed.toFile())
            .start();
    try {
      if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
        process.destroyForcibly();
        throw new FailedException("it is not ready after " + PATIENCE.toSeconds() + " s");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new FailedException("interrupted", e);
    }
    return new Ended(process.exitValue(), Files.readString(printed, StandardCharsets.ISO_8859_1));
  }

  ProcessIdentity identity() throws FailedException {
    return ProcessIdentity.of(pid).orElseThrow(() -> new FailedException("it has ended by itself"));
  }

  int pid() {
    return pid;
  }

  /** Tells it to look, and waits for what it says. */
  void conclude() throws FailedException {
    ProcessIdentity process = identity();
    ProcessHandle.of(pid).filter(handle -> process.isAlive()).ifPresent(ProcessHandle::destroy);
    if (!await(() -> isDead(process) && !lastLine(result).isEmpty())) {
      throw new FailedException("it does not come to an end; its last word: " + lastLine(result));
    }
    if (!lastLine(result).endsWith("PASS")) {
      throw new FailedException("it says: " + lastLine(result));
    }
  }

  /** Waits until a pid is free again. */
  static void awaitGone(ProcessIdentity process) throws FailedException {
    if (!await(() -> !process.isAlive())) {
      throw new FailedException("process " + process.pid() + " does not go");
    }
  }

  private static boolean isDead(ProcessIdentity process) {
    return Processes.stat(process).map(ProcStat::isDead).orElse(true);
  }

  private static boolean await(BooleanSupplier condition) {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - end >= 0) {
        return false;
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    return true;
  }

  private static String lastLine(Path file) {
    try {
      List<String> lines =
          Files.readString(file, StandardCharsets.ISO_8859_1).strip().lines().toList();
      return lines.isEmpty() ? "" : lines.get(lines.size() - 1);
    } catch (IOException e) {
      return "";
    }
  }

  /** Ends what is left of it. */
  @Override
  public void close() {
    List<Integer> all = new ArrayList<>(ProcFs.descendants(pid));
    all.add(pid);
    for (int each : all) {
      Optional<ProcessIdentity> process = ProcessIdentity.of(each);
      process
          .flatMap(identity -> ProcessHandle.of(each).filter(handle -> identity.isAlive()))
          .ifPresent(ProcessHandle::destroyForcibly);
    }
  }
}
