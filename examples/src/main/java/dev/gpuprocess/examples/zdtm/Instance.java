package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Command.Ended;
import dev.gpuprocess.examples.zdtm.Command.Running;
import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * A test program at work. It prepares itself, waits until it is told to look ({@code SIGTERM}), and
 * writes {@code PASS} into a file if nothing has changed for it.
 */
final class Instance implements AutoCloseable {

  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  /** What a program writes that finds nothing to look at. */
  private static final String SKIP = "SKIP: ";

  private final Stage stage;
  private final Program program;
  private ProcessIdentity identity;

  private Instance(Stage stage, Program program, ProcessIdentity identity) {
    this.stage = stage;
    this.program = program;
    this.identity = identity;
  }

  /**
   * Starts a program and waits until it is prepared.
   *
   * @throws NotHereException when it finds itself that it cannot run here
   */
  static Instance start(Stage stage, Program program, ProgramEnvironment ground, Hooks hooks)
      throws IOException, FailedException, NotHereException {
    Running running = ground.command().start();
    Optional<String> unprepared = hooks.postStart();
    Ended ended = running.await(program.timeout());
    Path pidFile = stage.file(program, ".pid");
    if (ended.exit() != 0 || !Files.exists(pidFile)) {
      throw new NotHereException(
          unprepared.orElse("does not start: " + why(stage, program, ended)));
    }
    int pid = Integer.parseInt(Files.readString(pidFile).strip());
    ProcessIdentity identity =
        ProcessIdentity.of(pid)
            .orElseThrow(() -> new FailedException("it ends before it is dumped"));
    Instance instance = new Instance(stage, program, identity);
    if (unprepared.isPresent()) {
      instance.close();
      throw new NotHereException(unprepared.get());
    }
    ground.started();
    return instance;
  }

  private static String why(Stage stage, Program program, Ended ended) {
    List<String> all = new ArrayList<>();
    for (String ending : List.of(".out", ".out.inprogress", ".outns")) {
      all.addAll(lines(stage.file(program, ending)));
    }
    all.addAll(ended.printed().lines().toList());
    return all.stream()
        .filter(line -> line.contains(SKIP) || line.contains("ERR: "))
        .filter(line -> !line.contains("test.c"))
        .findFirst()
        .orElse(ended.printed().strip().lines().findFirst().orElse("without a word"));
  }

  /** Who it is: another process after a restore. */
  ProcessIdentity identity() {
    return identity;
  }

  /** Waits until a dump has taken it away. */
  void awaitGone() throws FailedException, IOException {
    if (!await(() -> Processes.stat(identity).isEmpty())) {
      throw new FailedException("process " + identity.pid() + " does not go");
    }
    Files.deleteIfExists(stage.file(program, ".pid"));
  }

  /** Takes note that a restore has brought it back. */
  void returned(int pid) throws FailedException, IOException {
    identity =
        ProcessIdentity.of(pid)
            .orElseThrow(() -> new FailedException("it is not there after the restore"));
    Files.writeString(stage.file(program, ".pid"), Integer.toString(pid));
  }

  /** Tells it to look, and waits for what it says. */
  void conclude() throws FailedException {
    Path result = stage.file(program, ".out");
    terminate(identity);
    if (!await(() -> isDead(identity))) {
      throw new FailedException("it does not come to an end; its last word: " + lastLine(result));
    }
    String last = lastLine(result);
    if (!Arrays.asList(last.split("\\s+")).contains("PASS")) {
      String inProgress = lastLine(stage.file(program, ".out.inprogress"));
      throw new FailedException("it says: " + (last.isEmpty() ? inProgress : last));
    }
  }

  private static void terminate(ProcessIdentity process) {
    ProcessHandle.of(process.pid())
        .filter(handle -> process.isAlive())
        .ifPresent(ProcessHandle::destroy);
  }

  private static boolean isDead(ProcessIdentity process) {
    return Processes.stat(process).map(ProcStat::isDead).orElse(true);
  }

  private boolean await(BooleanSupplier condition) {
    Duration patience = program.timeout();
    long end = System.nanoTime() + patience.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - end >= 0) {
        return false;
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    return true;
  }

  private static String lastLine(Path file) {
    List<String> lines = lines(file);
    return lines.isEmpty() ? "" : lines.get(lines.size() - 1).strip();
  }

  /** None where there is no such file. */
  private static List<String> lines(Path file) {
    try {
      return Files.readString(file, StandardCharsets.ISO_8859_1).strip().lines().toList();
    } catch (IOException e) {
      return List.of();
    }
  }

  /** Ends what is left of it. */
  @Override
  public void close() throws FailedException {
    if (!identity.isAlive()) {
      return;
    }
    List<Integer> all = new ArrayList<>(ProcFs.descendants(identity.pid()));
    all.add(identity.pid());
    for (int each : all) {
      ProcessIdentity.of(each)
          .flatMap(process -> ProcessHandle.of(each).filter(handle -> process.isAlive()))
          .ifPresent(ProcessHandle::destroyForcibly);
    }
    if (!await(() -> isDead(identity))) {
      throw new FailedException("process " + identity.pid() + " cannot be killed");
    }
  }
}
