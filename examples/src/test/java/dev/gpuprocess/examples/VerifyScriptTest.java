package dev.gpuprocess.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The results of bin/verify in a checkout with a substitute for Maven. */
@NullUnmarked
class VerifyScriptTest {

  private static final Path ROOT = Path.of(System.getProperty("gpuprocess.root"));
  private static final String SUMMARY =
      "examples/src/main/java/dev/gpuprocess/examples/verification/VerifySummary.java";

  /**
   * Behaves as Maven: modules that depend on a module with a failed test are skipped, unless failed
   * tests are ignored; then the exit code is 0. Each run tests one module after the other.
   */
  private static final String MAVEN =
      """
      #!/usr/bin/env bash
      echo "$*" >>"$LOG/runs"
      report() {
        mkdir -p "$1/target/surefire-reports"
        echo "<testsuite tests='1' errors='0' skipped='0' failures='$2'>
          <testcase name='one' classname='$1.T'>$3</testcase></testsuite>" \\
          >"$1/target/surefire-reports/TEST-$1.T.xml"
      }
      echo "A1 passed T.one" >>target/outside.txt
      if [ "$BROKEN" = test ]; then
        report first 1 "<failure message='no'/>"
        [[ " $* " == *" -Dmaven.test.failure.ignore "* ]] || exit 1
      else
        report first 0
      fi
      if [ "$BROKEN" = hang ]; then echo "[ERROR] There was a timeout in the fork"; fi
      if [ "$BROKEN" = compile ]; then exit 1; fi
      report second 0
      """;

  @TempDir Path directory;
  private Path checkout;
  private Path programs;

  @BeforeEach
  void makeCheckout() throws IOException {
    checkout = Files.createDirectory(directory.resolve("checkout"));
    programs = Files.createDirectory(directory.resolve("programs"));
    for (String file : List.of("bin/verify", "bin/lib.sh", SUMMARY)) {
      Path copy = checkout.resolve(file);
      Files.createDirectories(copy.getParent());
      Files.copy(ROOT.resolve(file), copy);
    }
    Files.createDirectories(checkout.resolve("docs/dev"));
    Files.writeString(checkout.resolve("docs/dev/outside-use.md"), "| A1 | this |\n");
    Files.createDirectories(checkout.resolve("src-test-fixtures/src"));
    script(
        Files.createDirectories(checkout.resolve(".ci")).resolve("run"), "#!/usr/bin/env bash\n");
    script(checkout.resolve("bin/criu"), "#!/usr/bin/env bash\necho /no/criu\n");
    script(programs.resolve("mvn"), MAVEN);
    for (String needed : List.of("gcc", "perl", "ip", "openssl", "shellcheck")) {
      // Reads its input, because a SIGPIPE would end the script.
      script(programs.resolve(needed), "#!/bin/sh\ncat >/dev/null\n");
    }
  }

  private static void script(Path file, String text) throws IOException {
    Files.writeString(file, text);
    assertTrue(file.toFile().setExecutable(true));
  }

  private record Outcome(int exit, List<String> out, List<String> runs) {

    String last() {
      return out.get(out.size() - 1);
    }
  }

  private Outcome verify(String broken) throws IOException, InterruptedException {
    Path out = directory.resolve("out");
    ProcessBuilder builder =
        new ProcessBuilder(checkout.resolve("bin/verify").toString())
            .redirectErrorStream(true)
            .redirectOutput(out.toFile());
    Map<String, String> environment = builder.environment();
    environment.put("PATH", programs + ":" + environment.get("PATH"));
    environment.put("JAVA_HOME", System.getProperty("java.home"));
    environment.put("HOME", Files.createDirectories(directory.resolve("home")).toString());
    environment.put("LOG", directory.toString());
    environment.put("BROKEN", broken);
    environment.put("GP_INSTALL_NOTHING", "yes");
    Process process = builder.start();
    process.getOutputStream().close();
    assertTrue(process.waitFor(180, TimeUnit.SECONDS));
    return new Outcome(
        process.exitValue(),
        Files.readAllLines(out, StandardCharsets.UTF_8),
        Files.exists(directory.resolve("runs"))
            ? Files.readAllLines(directory.resolve("runs"), StandardCharsets.UTF_8)
            : List.of());
  }

  private int runsOfASuccess() throws IOException, InterruptedException {
    Outcome success = verify("");
    assertEquals(0, success.exit(), success::toString);
    int runs = success.runs().size();
    assertEquals(2 * runs + " passed, 0 failed, 0 skipped", success.last(), success::toString);
    Files.delete(directory.resolve("runs"));
    return runs;
  }

  @Test
  void continuesWithModulesAndRunsAfterAFailedTest() throws Exception {
    int runs = runsOfASuccess();

    Outcome outcome = verify("test");

    assertEquals(1, outcome.exit(), outcome::toString);
    assertEquals(runs, outcome.runs().size(), outcome::toString);
    assertEquals(
        runs + " passed, " + runs + " failed, 0 skipped", outcome.last(), outcome::toString);
  }

  @Test
  void stopsAfterACompileError() throws Exception {
    Outcome outcome = verify("compile");

    assertEquals(1, outcome.exit(), outcome::toString);
    assertEquals(1, outcome.runs().size(), outcome::toString);
    assertEquals("1 passed, 1 failed, 0 skipped", outcome.last(), outcome::toString);
  }

  @Test
  void failsIfATestJvmHangs() throws Exception {
    Outcome outcome = verify("hang");

    assertEquals(1, outcome.exit(), outcome::toString);
    assertEquals("2 passed, 1 failed, 0 skipped", outcome.last(), outcome::toString);
  }
}
