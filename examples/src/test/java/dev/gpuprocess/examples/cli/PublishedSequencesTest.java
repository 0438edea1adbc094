package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Sequences of commands as others have published them, with criu typed into the interactive shell
 * in which the job was started. $P is its pid, $D the directory of the images.
 */
@RequiresRoot("traces other processes and runs CRIU's command")
@RequiresCriu
@SimulatedGpu
class PublishedSequencesTest {

  private static final int MIB = 64;
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);
  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final Pattern NUMBER = Pattern.compile("number (\\d+)");

  private static final String TOGGLE = "cuda-checkpoint --toggle --pid $P";

  @TempDir private Path directory;

  private final GpuCheckpoints machine;
  private final SimulatedDriver driver;
  private TerminalShell shell;
  private Counter counter;
  private Path images;

  PublishedSequencesTest(GpuCheckpoints machine, SimulatedDriver driver) {
    this.machine = machine;
    this.driver = driver;
  }

  @BeforeEach
  void startJobInTerminal() throws IOException {
    images = Files.createDirectory(directory.resolve("images"));
    shell = new TerminalShell(directory, definitions());
    counter = driver.start(Counter.launch(MIB).printing(), this::start);
    shell.run("P=" + counter.pid());
    assertEquals(101, counter.increment());
  }

  @AfterEach
  void end() throws Exception {
    counter.close();
    shell.close();
  }

  /** The commands are typed as they were published; the shell adds what a test needs. */
  private List<String> definitions() {
    return List.of(
        "PS1='> '",
        "cd " + images,
        "D=" + images,
        // Both ends of a connection of the counter are in the counter.
        "type -P iptables-restore >/dev/null || lock='--network-lock skip'",
        "criu() { timeout --foreground 180 %s \"$@\" --no-default-config --log-file $1.log -v4 $lock; }"
            .formatted(PlainCriu.command()),
        "gpuprocess() { %s \"$@\"; }"
            .formatted(
                Call.program(driver, machine, List.of()).stream()
                    .map(word -> "'" + word + "'")
                    .collect(Collectors.joining(" "))),
        "restored() { until grep -qs 'Restore finished' $D/restore.log; do",
        "  [ -n \"$(jobs -r)\" ] && sleep 0.05 || return 1",
        "done; }");
  }

  private long start(List<String> command, Map<String, String> environment) {
    List<String> words = new ArrayList<>(command);
    words.remove("--setsid");
    environment.forEach((name, value) -> words.add(0, name + "=" + value));
    return shell.start(String.join(" ", words));
  }

  private String numbers() {
    return NUMBER
        .matcher(shell.screen())
        .results()
        .map(result -> result.group(1))
        .collect(Collectors.joining(" "));
  }

  /** The next number comes, the memory is whole, and the terminal shows each number. */
  private void assertCountsOn(String numbers) {
    assertEquals(102, counter.increment());
    assertEquals(WHOLE, counter.verify());
    assertTrue(Await.until(PATIENCE, () -> numbers().equals(numbers)), shell::screen);
  }

  /** CRIU and a restore need the terminal; the other commands run in this JVM, which is faster. */
  private void play(String sequence) {
    for (String command : sequence.split("; ")) {
      if (command.startsWith("criu ") || command.startsWith("gpuprocess restore-image ")) {
        typed(command);
      } else {
        called(command);
      }
      if (command.contains(" dump ") && !command.contains("--leave-running")) {
        assertTrue(counter.awaitExit(PATIENCE), command);
      }
    }
  }

  private void typed(String command) {
    int code = shell.code(command);
    assertEquals(0, code, () -> shell.screen() + PlainCriu.logs(images));
  }

  private void called(String command) {
    String line =
        command
            .replace("gpuprocess ", "")
            .replace("$P", Long.toString(counter.pid()))
            .replace("$D", images.toString());
    Call call = Call.line(machine, line);
    assertEquals(0, call.code(), call::toString);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        TOGGLE
            + "; criu dump --shell-job --images-dir $D --tree $P"
            + "; criu restore --shell-job --restore-detached --images-dir $D; "
            + TOGGLE,
        "cu_check lock $P; cu_check checkpoint $P; criu dump -j -D $D -t $P"
            + "; criu restore -j -D $D & restored; cu_check restore $P; cu_check unlock $P",
        "cr_client -c -p $P; criu dump -j -D $D -t $P; criu restore -j -d -D $D; cr_client -r -p $P",
        "gpuprocess dump $P $D/image; gpuprocess restore-image $D/image",
        "gpuprocess suspend $P; criu dump -j -D $D -t $P; criu restore -j -d -D $D; gpuprocess resume $P",
        TOGGLE + "; gpuprocess dump $P $D/image; gpuprocess restore-image $D/image"
      })
  void jobCountsOnInItsTerminal(String sequence) {
    play(sequence);
    assertCountsOn("101 102");
  }

  /** The command line that describe prints is typed into the shell. */
  @Test
  void imageCountsOnAfterTheCommandThatDescribePrints() {
    play("gpuprocess suspend $P; gpuprocess dump $P $D/image");
    Call call = Call.line(machine, "images describe " + images.resolve("image"));
    typed(call.detail("PLAIN CRIU"));
    called(TOGGLE);
    assertCountsOn("101 102");
    called("gpuprocess images verify $D/image");
  }

  @Test
  void jobKeepsItsConnections() {
    assertTrue(counter.ask("tcp").matches("\\d+"));
    play(TOGGLE + "; criu dump --shell-job --tcp-established --images-dir $D --tree $P");
    play(
        "criu restore --shell-job --tcp-established --restore-detached --images-dir $D; " + TOGGLE);
    assertCountsOn("101 102");
  }

  @Test
  void jobThatWasLeftRunningAndItsImageCountOn() {
    play(TOGGLE + "; criu dump --shell-job --leave-running --images-dir $D --tree $P; " + TOGGLE);
    assertCountsOn("101 102");
    counter.kill();
    play("criu restore --shell-job --restore-detached --images-dir $D; " + TOGGLE);
    assertCountsOn("101 102 102");
  }

  /** As CRIU waits for it, and gives it the foreground of the terminal. */
  @Test
  void jobRestoredInTheForegroundEndsByCtrlC() {
    play(TOGGLE + "; criu dump -j -D $D -t $P");
    shell.type("criu restore -j -D $D");
    assertTrue(
        Await.until(PATIENCE, () -> PlainCriu.logs(images).contains("Restore finished")),
        () -> shell.screen() + PlainCriu.logs(images));
    play(TOGGLE);
    assertCountsOn("101 102");
    shell.interrupt();
    assertTrue(counter.awaitExit(PATIENCE), shell::screen);
    shell.run("true");
  }
}
