package dev.gpuprocess.survival;

import dev.gpuprocess.criu.Hoard;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;

/** The parent's side of a {@link SoakController}. */
final class SoakRemote implements AutoCloseable {

  private static final long PATIENCE_SECONDS = 120;

  private final Process process;
  private final BufferedWriter orders;
  private final BufferedReader answers;
  private final String description;
  private int done;
  private int refused;

  SoakRemote(SoakPlace place, Path temporary, String name, Random random) {
    Map<String, String> environment = new TreeMap<>(Locales.environment(random));
    environment.put(Crash.MARK, place.state().toString());
    List<String> arguments = new ArrayList<>(place.arguments());
    arguments.addAll(List.of(name, Long.toString(random.nextLong())));
    List<String> options = Locales.options(random);
    description = name + " with " + options + " and " + environment.get("LC_ALL");
    process =
        ChildJvm.start(
            Hoard.launcher(), options, SoakController.class, temporary, environment, arguments);
    orders = process.outputWriter(StandardCharsets.UTF_8);
    answers = process.inputReader(StandardCharsets.UTF_8);
  }

  @Override
  public String toString() {
    return description;
  }

  /** Returns the numbers of verbs that succeeded and that did not. */
  int done() {
    return done;
  }

  int refused() {
    return refused;
  }

  void work(SoakOrder order) {
    order(order.line());
  }

  void countLeaks() {
    order(SoakShift.LEAKS);
  }

  private void order(String order) {
    try {
      orders.write(order + "\n");
      orders.flush();
    } catch (IOException e) {
      throw new UncheckedIOException("the controller does not listen", e);
    }
  }

  /** Waits until the last command is executed; returns the violations. */
  List<Violation> await() {
    List<Violation> violations = new ArrayList<>();
    try {
      CompletableFuture.runAsync(() -> answer(violations))
          .orTimeout(PATIENCE_SECONDS, TimeUnit.SECONDS)
          .join();
    } catch (CompletionException e) {
      throw new IllegalStateException(
          this + " does not come to an end, having said " + violations, e);
    }
    return violations;
  }

  private void answer(List<Violation> violations) {
    try {
      for (String line = answers.readLine(); line != null; line = answers.readLine()) {
        if (line.equals(SoakController.END)) {
          return;
        }
        if (line.startsWith(SoakShift.DONE)) {
          String[] counts = line.substring(SoakShift.DONE.length()).split(" ");
          done += Integer.parseInt(counts[0]);
          refused += Integer.parseInt(counts[1]);
        } else {
          String said = line;
          violations.add(
              Violation.read(line)
                  .orElseGet(() -> new Violation(Violation.Kind.WRONG, this + " says " + said)));
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    throw new IllegalStateException("it ended");
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
