package dev.gpuprocess.survival;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** A {@link SoakController} as its parent sees it. */
final class SoakRemote implements AutoCloseable {

  private static final long PATIENCE_SECONDS = 120;

  private final Process process;
  private final BufferedWriter orders;
  private final BufferedReader answers;
  private int done;
  private int refused;

  SoakRemote(Lane lane, String name) {
    process =
        ChildJvm.start(
            SoakController.class,
            lane.temporary(),
            Map.of(Crash.MARK, lane.state().toString()),
            List.of(
                lane.machine.directory().toString(),
                lane.state().toString(),
                lane.images().toString(),
                name));
    orders = process.outputWriter(StandardCharsets.UTF_8);
    answers = process.inputReader(StandardCharsets.UTF_8);
  }

  /** How many verbs went through, and how many did not. */
  int done() {
    return done;
  }

  int refused() {
    return refused;
  }

  void work(long seed, long millis, List<Integer> pids) {
    order(
        "%s %d %d %s"
            .formatted(
                SoakController.ROUND,
                seed,
                millis,
                pids.stream().map(String::valueOf).collect(Collectors.joining(" "))));
  }

  void countLeaks() {
    order(SoakController.LEAKS);
  }

  private void order(String order) {
    try {
      orders.write(order + "\n");
      orders.flush();
    } catch (IOException e) {
      throw new UncheckedIOException("the controller does not listen", e);
    }
  }

  /** Waits until the last order is carried out; tells what must not be. */
  List<String> await() {
    List<String> complaints = new ArrayList<>();
    return CompletableFuture.supplyAsync(() -> answer(complaints))
        .orTimeout(PATIENCE_SECONDS, TimeUnit.SECONDS)
        .join();
  }

  private List<String> answer(List<String> complaints) {
    try {
      for (String line = answers.readLine(); line != null; line = answers.readLine()) {
        if (line.startsWith(SoakController.DONE)) {
          String[] counts = line.substring(SoakController.DONE.length()).split(" ");
          done = Integer.parseInt(counts[0]);
          refused = Integer.parseInt(counts[1]);
          return complaints;
        }
        complaints.add(line);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    throw new IllegalStateException("a controller ended: " + complaints);
  }

  @Override
  public void close() {
    process.destroyForcibly();
    try {
      if (!process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
        throw new IllegalStateException("a controller does not die");
      }
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
