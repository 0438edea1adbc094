package dev.gpuprocess.criu;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.options.ResumeOptions;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Writer;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A node agent in a JVM of its own, in the network namespace of its host. It executes the commands
 * of its input, one in each line, and answers each with a line.
 */
final class MigrationHost implements AutoCloseable {

  private static final int ANSWER_BYTES = 512;

  private final Process process;
  private final BufferedReader answers;
  private final Writer commands;
  private final List<String> said = new ArrayList<>();

  /**
   * Starts one.
   *
   * @param prefix puts a command where the host is
   * @param machine the simulated GPUs
   * @param state its state directory
   */
  MigrationHost(List<String> prefix, Path machine, Path state) throws IOException {
    List<String> command =
        TestJvm.commandBy(prefix, MigrationHost.class, machine.toString(), state.toString());
    process = new ProcessBuilder(command).redirectErrorStream(true).start();
    answers = process.inputReader(StandardCharsets.UTF_8);
    commands = process.outputWriter(StandardCharsets.UTF_8);
  }

  private String answer() throws IOException {
    for (String line = answers.readLine(); line != null; line = answers.readLine()) {
      if (line.startsWith("= ")) {
        return line.substring(2);
      }
      said.add(line);
    }
    throw new AssertionError("the host ended: " + said);
  }

  /** Sends it a command and waits until it is executed. */
  String tell(String command) throws IOException {
    commands.write(command + "\n");
    commands.flush();
    return answer();
  }

  @Override
  public void close() {
    TestJvm.end(process);
  }

  /** The host itself. */
  public static void main(String[] arguments) throws IOException {
    Agent agent = new Agent(Path.of(arguments[0]), Path.of(arguments[1]));
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      try {
        System.out.println("= " + agent.done(line.split(" ")));
      } catch (GpuCheckpointException | IOException | IllegalStateException | AssertionError e) {
        System.out.println("= " + e.getClass().getSimpleName() + ": " + e.getMessage());
      }
    }
  }

  private static final class Agent {

    private final Path machine;
    private final GpuCheckpoints checkpoints;

    Agent(Path machine, Path state) {
      this.machine = machine;
      this.checkpoints = GpuCheckpoints.builder().cuda(machine).stateDirectory(state).build();
    }

    String done(String[] words) throws IOException {
      return switch (words[0]) {
        case "job" -> told(Job.launch(3, 2, 2).on(gpus()).notOurChild().start());
        case "counter" -> told(Counter.launch(16).on(gpus()).notOurChild().start());
        case "dump" -> {
          suspended(words[1]).dump(Path.of(words[2]));
          yield "ok";
        }
        case "copy" -> {
          checkpoints.open(Path.of(words[1])).copyTo(Path.of(words[2]));
          yield "ok";
        }
        case "restore" -> {
          ImageStore store = checkpoints.store(Path.of(words[2]));
          yield resumed(store.open(store.fetch(Path.of(words[1]))).restore(), words);
        }
        case "ask" -> ask(words);
        case "end" -> {
          ProcessHandle root = ProcessHandle.of(Long.parseLong(words[1])).orElseThrow();
          root.descendants().forEach(ProcessHandle::destroyForcibly);
          yield root.destroyForcibly() ? "ok" : "it has ended";
        }
        default -> throw new IOException("what is " + words[0] + "?");
      };
    }

    private SimulatedDriver gpus() {
      return SimulatedDriver.builder().gpus(2).memory(2L << 30).seed("both").create(machine);
    }

    private static String told(Workload workload) {
      InetSocketAddress address = workload.address();
      return "%s %s %s"
          .formatted(workload.pid(), address.getAddress().getHostAddress(), address.getPort());
    }

    private CheckpointedProcess suspended(String pid) {
      return checkpoints.process(Long.parseLong(pid)).suspend();
    }

    /** Swaps the GPUs if the last argument requests it. */
    private String resumed(CheckpointedProcess job, String[] words) {
      ResumeOptions.Builder options = ResumeOptions.builder();
      if (words[words.length - 1].equals("swapped")) {
        List<GpuUuid> all =
            checkpoints.gpus().read().orElseThrow().gpus().stream().map(gpu -> gpu.uuid()).toList();
        options.gpus(GpuMap.swap(all.get(0), all.get(1)));
      }
      job.resume(options.build());
      return "ok";
    }

    private static String ask(String[] words) throws IOException {
      InetAddress address = InetAddress.getByName(words[1]);
      String question = String.join(" ", List.of(words).subList(3, words.length));
      try (DatagramSocket socket = new DatagramSocket(0, InetAddress.getLoopbackAddress())) {
        socket.setSoTimeout(Math.toIntExact(DumpDirectories.PATIENCE.toMillis()));
        socket.connect(address, Integer.parseInt(words[2]));
        byte[] bytes = question.getBytes(StandardCharsets.UTF_8);
        socket.send(new DatagramPacket(bytes, bytes.length));
        DatagramPacket answer = new DatagramPacket(new byte[ANSWER_BYTES], ANSWER_BYTES);
        socket.receive(answer);
        return new String(answer.getData(), 0, answer.getLength(), StandardCharsets.UTF_8);
      }
    }
  }
}
