package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.ProgramRun.Ended;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/**
 * A running test program. It prepares itself, waits for {@code SIGTERM}, checks itself, and writes
 * {@code PASS} into a file if nothing has changed.
 */
final class Instance implements AutoCloseable {

  /** The output of a program that cannot run here. */
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
   * @throws NotHereException if the program reports that it cannot run here
   */
  static Instance start(Stage stage, Program program, ProgramEnvironment environment, Hooks hooks)
      throws IOException, FailedException, NotHereException {
    ProgramRun.Running running = environment.command().start();
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
            .orElseThrow(() -> new FailedException("the program exited before the dump"));
    Instance instance = new Instance(stage, program, identity);
    if (unprepared.isPresent()) {
      instance.close();
      throw new NotHereException(unprepared.get());
    }
    environment.started();
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
        .orElse(ended.printed().strip().lines().findFirst().orElse("no output"));
  }

  /** Returns the identity of the process, which changes with a restore. */
  ProcessIdentity identity() {
    return identity;
  }

  /** Waits until the process has exited after a dump. */
  void awaitGone() throws FailedException, IOException {
    if (!await(() -> Processes.stat(identity).isEmpty())) {
      throw new FailedException("process " + identity.pid() + " did not exit after the dump");
    }
    Files.deleteIfExists(stage.file(program, ".pid"));
  }

  /** Sets the pid of the restored process. */
  void restored(int pid) throws FailedException, IOException {
    identity =
        ProcessIdentity.of(pid)
            .orElseThrow(() -> new FailedException("no process has the pid after the restore"));
    Files.writeString(stage.file(program, ".pid"), Integer.toString(pid));
  }

  /** Makes the program check itself, and waits for its result. */
  void conclude() throws FailedException {
    Path result = stage.file(program, ".out");
    terminate(identity);
    if (!await(() -> isDead(identity))) {
      throw new FailedException("the program did not exit; its last output: " + lastLine(result));
    }
    String last = lastLine(result);
    if (!Arrays.asList(last.split("\\s+")).contains("PASS")) {
      String inProgress = lastLine(stage.file(program, ".out.inprogress"));
      throw new FailedException("the program reports: " + (last.isEmpty() ? inProgress : last));
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
    return Await.until(program.timeout(), condition);
  }

  private static String lastLine(Path file) {
    List<String> lines = lines(file);
    return lines.isEmpty() ? "" : lines.get(lines.size() - 1).strip();
  }

  /** Returns the lines of a file; none if it does not exist. */
  private static List<String> lines(Path file) {
    try {
      return Files.readString(file, StandardCharsets.ISO_8859_1).strip().lines().toList();
    } catch (IOException e) {
      return List.of();
    }
  }

  /** Kills the process and its descendants. */
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
