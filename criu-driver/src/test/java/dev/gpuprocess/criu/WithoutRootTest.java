package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.fail;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.Workload;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/**
 * Where CRIU is root's and the JVM is not: {@link UserScenarios} and {@link UserContract}, run by
 * another user.
 */
@NullUnmarked
@Tag("slow")
class WithoutRootTest {

  private static final List<String> PROPERTIES =
      List.of(
          "junit.jupiter.execution.timeout.default=240 s",
          "junit.jupiter.execution.timeout.thread.mode.default=SEPARATE_THREAD",
          "junit.jupiter.execution.parallel.enabled=true",
          "org.slf4j.simpleLogger.defaultLogLevel=error");

  @TestFactory
  @Timeout(1200)
  Stream<DynamicTest> throughASetuidCommand() throws IOException, InterruptedException {
    List<String> criu = RealCriu.command();
    try (AnotherUser user = AnotherUser.create()) {
      ProcessBuilder builder = user.jvm(UserMain.class, PROPERTIES);
      builder.environment().put(CriuLocator.COMMAND_VARIABLE, user.criu(criu));
      return run("a setuid command", user, builder);
    }
  }

  @TestFactory
  @Timeout(1200)
  Stream<DynamicTest> throughSudo() throws IOException, InterruptedException {
    List<String> criu = RealCriu.command();
    try (AnotherUser user = AnotherUser.create()) {
      String program = user.criuAsRoot(criu);
      List<Path> allowed = List.of(Path.of(program), user.home().resolve("*/slow"));
      RealSudo sudo = RealSudo.of(user, "use_pty", allowed);
      ProcessBuilder builder = sudo.jvm(UserMain.class, PROPERTIES);
      builder.environment().put(CriuLocator.COMMAND_VARIABLE, "sudo -n " + program);
      return run("sudo", user, builder);
    }
  }

  private static Stream<DynamicTest> run(String way, AnotherUser user, ProcessBuilder builder)
      throws IOException, InterruptedException {
    Process jvm = builder.start();
    List<UserMain.Line> lines;
    try (BufferedReader out = jvm.inputReader()) {
      lines = out.lines().map(UserMain.Line::parse).toList();
      assertEquals(0, jvm.waitFor());
    } finally {
      jvm.destroyForcibly();
    }
    assertFalse(lines.isEmpty());
    Workload.await(
        () -> AnotherUser.argumentsWith(user.directory() + "/").isEmpty(),
        "all that the user has started to end");
    long passed = lines.stream().filter(line -> line.status().equals("SUCCESSFUL")).count();
    Figures.add(
        "criu by %s, as uid %d: %d of %d".formatted(way, AnotherUser.ID, passed, lines.size()));
    return lines.stream().map(line -> DynamicTest.dynamicTest(line.test(), () -> judge(line)));
  }

  private static void judge(UserMain.Line line) {
    switch (line.status()) {
      case "SUCCESSFUL" -> {}
      case "ABORTED" -> Assumptions.abort(line.test() + ": " + line.message());
      default -> fail(line.test() + ": " + line.message());
    }
  }
}
