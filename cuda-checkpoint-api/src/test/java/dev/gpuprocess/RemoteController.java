package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.reservation.Reservations;
import dev.gpuprocess.internal.reservation.ReservedMemory;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** A controller in a JVM of its own that executes commands, one after the other. */
public final class RemoteController implements AutoCloseable {

  private final Process process;
  private final BufferedReader answers;
  private final PrintStream questions;

  private RemoteController(List<String> command) throws IOException {
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    answers = process.inputReader(StandardCharsets.UTF_8);
    questions = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
  }

  /** Starts one. */
  public static RemoteController start(SimulatedDriver machine, Path state) throws IOException {
    return new RemoteController(command(machine, state));
  }

  /** Starts one that is the first process of a pid namespace, with a /proc of that. */
  static RemoteController inNamespace(SimulatedDriver machine, Path state) throws IOException {
    List<String> command =
        new ArrayList<>(List.of("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"));
    command.addAll(command(machine, state));
    RemoteController controller = new RemoteController(command);
    // Before its first answer it may still be unshare.
    ProcessKey self = ProcessKey.parse(controller.say("self", 0));
    assertEquals(1, self.pid());
    return controller;
  }

  private static List<String> command(SimulatedDriver machine, Path state) {
    return TestJvm.command(
        List.of("-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
        RemoteController.class,
        machine.directory().toString(),
        state.toString());
  }

  /** Does what is said on the standard input, until that ends. */
  public static void main(String[] args) throws IOException {
    Path machine = Path.of(args[0]);
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder().cuda(machine).stateDirectory(Path.of(args[1])).build();
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] words = line.split(" ");
      try {
        System.out.println(answer(checkpoints, words[0], Long.parseLong(words[1])));
      } catch (RuntimeException | IOException e) {
        System.out.println(e.getClass().getSimpleName() + ": " + e.getMessage());
      }
    }
  }

  private static String answer(GpuCheckpoints checkpoints, String verb, long pid)
      throws IOException {
    switch (verb) {
      case "suspend" -> checkpoints.process(pid).suspend();
      case "resume" -> ((CheckpointedProcess) checkpoints.inspect(pid)).resume();
      case "lock" -> checkpoints.process(pid).lock();
      case "unlock" -> ((LockedProcess) checkpoints.inspect(pid)).unlock();
      case "recover" -> {
        return checkpoints.recover().stream().map(Recovered::outcome).toList().toString();
      }
      case "key" -> {
        return ProcessKey.of(ProcessIdentity.of(pid).orElseThrow()).text();
      }
      case "self" -> {
        return ProcessKey.self().text();
      }
      case "take" -> {
        // Kept until this JVM ends.
        ProcessKey key = ProcessKey.of(ProcessIdentity.of(pid).orElseThrow());
        ProcessLock.take(
            key,
            (int) pid,
            "take",
            ProcessLock.Kind.MOVE,
            checkpoints.context().state(),
            Duration.ofSeconds(1));
      }
      case "reserve" -> reserve(checkpoints, pid);
      case "reserved" -> {
        return new Reservations(
                checkpoints.context().state(), Duration.ofSeconds(pid), process -> true)
            .alone(1, Duration.ofSeconds(30), claims -> Integer.toString(claims.size()));
      }
      case "write" -> {
        ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
        new TrackedProcess(checkpoints.context(), process, GpuUsage.UNKNOWN)
            .note("lock", ProcessLock.Kind.MOVE);
      }
      default -> throw new IllegalArgumentException(verb);
    }
    return "done";
  }

  /** Reserves GPU memory for a process as a controller does that then dies. */
  static void reserve(GpuCheckpoints checkpoints, long pid) throws IOException {
    ReservedMemory claim =
        ReservedMemory.of(
            ProcessIdentity.of(pid).orElseThrow(),
            Map.of(GpuUuid.of("GPU-00000000-0000-0000-0000-000000000001"), 7L));
    try (NamedLock dead =
        checkpoints.context().state().tryLock("room-of-the-dead", "restore").orElseThrow()) {
      dead.note(claim.text());
    }
  }

  /** Has it do something; gives its answer. */
  public String say(String verb, long pid) throws IOException {
    questions.println(verb + " " + pid);
    String answer = answers.readLine();
    if (answer == null) {
      throw new IOException("the other controller ended");
    }
    return answer;
  }

  /** Its pid here, also when it is in a namespace. */
  public ProcessIdentity identity() {
    return ProcFs.descendants(process.pid()).stream()
        .flatMap(pid -> ProcFs.stat(pid).stream())
        .filter(stat -> stat.name().equals("java"))
        .map(ProcStat::pid)
        .findFirst()
        .or(() -> Optional.of((int) process.pid()))
        .flatMap(ProcessIdentity::of)
        .orElseThrow();
  }

  /** Kills it, as a crash would, and waits until it is gone. */
  @Override
  public void close() {
    if (process.isAlive()) {
      ProcessIdentity java = identity();
      ProcessHandle.of(java.pid()).filter(h -> java.isAlive()).ifPresent(h -> h.destroyForcibly());
    }
    process.destroyForcibly();
    try {
      if (!process.waitFor(30, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the other controller does not die");
      }
      answers.close();
      questions.close();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
