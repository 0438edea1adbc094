package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The script, run by a stand-in for a CRIU that is root, also where the JVM is somebody else. */
@NullUnmarked
class StageScriptTest {

  private static final int SOMEBODY = 12_345;

  @TempDir Path directory;
  private Path work;
  private Path images;

  @BeforeEach
  void makeDirectories() throws IOException {
    work = Files.createDirectory(directory.resolve("work"));
    images = Files.createDirectory(directory.resolve("images"));
  }

  /** Runs the script at a stage, and then has something below it that goes on for long. */
  private Process criu(StageScript script, String stage) throws IOException {
    ProcessBuilder builder =
        new ProcessBuilder("sh", "-c", "\"$0\"; echo $?; sleep 1000; :", script.file().toString());
    builder.environment().put("CRTOOLS_SCRIPT_ACTION", stage);
    builder.environment().put("CRTOOLS_INIT_PID", "4711");
    builder.environment().put("CRTOOLS_IMAGE_DIR", images.toString());
    return builder.redirectErrorStream(true).start();
  }

  private static StageScript.Call next(StageScript script) throws NativeCallException {
    assertTrue(new Poll(1).await(20_000, script.descriptor()), "the script says nothing");
    return script.next().orElseThrow();
  }

  private static void end(Process criu) throws InterruptedException {
    List<Integer> below = ProcFs.descendants(criu.pid());
    below.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
    criu.destroyForcibly().waitFor();
  }

  private void assertExit(String expected, Boolean answer) throws Exception {
    try (StageScript script = StageScript.write(work)) {
      Process criu = criu(script, "post-restore");
      StageScript.Call call = next(script);
      assertEquals(criu.pid(), call.criu());
      assertEquals(4711, call.root());
      assertEquals("post-restore", call.stage());
      if (answer == null) {
        script.hangUp();
      } else {
        script.answer(call, answer);
      }
      assertEquals(expected, criu.inputReader().readLine());
      end(criu);
    }
    try (var left = Files.list(work)) {
      assertEquals(0, left.count());
    }
  }

  @Test
  void agreement_isSuccess() throws Exception {
    assertExit("0", true);
  }

  @Test
  void refusal_isFailure() throws Exception {
    assertExit("1", false);
  }

  @Test
  void silence_isFailure() throws Exception {
    assertExit("1", null);
  }

  @Test
  void pipesThatAreGone_orBelongToAnother_areFailure() throws Exception {
    Path copy = directory.resolve("copy");
    try (StageScript script = StageScript.write(work)) {
      Files.copy(script.file(), copy, java.nio.file.StandardCopyOption.COPY_ATTRIBUTES);
    }
    try (Pipe other = Pipe.open();
        Pipe another = Pipe.open();
        Pipe third = Pipe.open()) {
      assertTrue(third.name().startsWith("pipe:") && other.writing() != another.writing());
      Process alone = new ProcessBuilder(copy.toString()).start();
      assertTrue(alone.waitFor(20, TimeUnit.SECONDS));
      assertTrue(alone.exitValue() != 0);
      assertEquals(false, new Poll(2).await(0, other.reading(), another.reading()));
    }
  }

  @Test
  void answerForAScriptThatDied_isNotTakenByTheNext() throws Exception {
    try (StageScript script = StageScript.write(work)) {
      Process first = criu(script, "pre-dump");
      StageScript.Call unheard = next(script);
      Process second = criu(script, "pre-dump");
      next(script);
      script.answer(unheard, true);
      script.hangUp();
      String heard = first.inputReader().readLine() + second.inputReader().readLine();
      assertTrue(heard.equals("01") || heard.equals("11"), heard);
      end(first);
      end(second);
    }
  }

  @Test
  void whatRootWrites_becomesOurs() throws Exception {
    Assumptions.assumeTrue(Posix.isRoot(), "not root");
    Path image = Files.createFile(images.resolve("core-1.img"));
    try (StageScript script = StageScript.write(work, SOMEBODY, SOMEBODY)) {
      Process criu = criu(script, "post-dump");
      script.answer(next(script), true);
      assertEquals("0", criu.inputReader().readLine());
      assertEquals(SOMEBODY, Files.getAttribute(image, "unix:uid"));
      end(criu);
    }
  }

  @Test
  void order_endsCriuAndAllBelowIt() throws Exception {
    try (StageScript script = StageScript.write(work, SOMEBODY, SOMEBODY)) {
      Process criu = criu(script, "pre-restore");
      script.answer(next(script), true);
      assertEquals("0", criu.inputReader().readLine());
      Workload.await(() -> !ProcFs.descendants(criu.pid()).isEmpty(), "something below");
      int below = ProcFs.descendants(criu.pid()).get(0);
      script.orderEnd(true);
      assertEquals(128 + 9, criu.waitFor());
      Workload.await(
          () -> ProcFs.stat(below).filter(stat -> !stat.isDead()).isEmpty(), "its child to end");
    }
  }

  @Test
  void order_sparesWhatRunsAlready() throws Exception {
    try (StageScript script = StageScript.write(work, SOMEBODY, SOMEBODY)) {
      Process criu = criu(script, "pre-restore");
      script.answer(next(script), true);
      assertEquals("0", criu.inputReader().readLine());
      Workload.await(() -> !ProcFs.descendants(criu.pid()).isEmpty(), "something below");
      int below = ProcFs.descendants(criu.pid()).get(0);
      script.orderEnd(false);
      assertEquals(128 + 9, criu.waitFor());
      assertTrue(ProcFs.stat(below).filter(stat -> !stat.isDead()).isPresent());
      ProcessHandle.of(below).ifPresent(ProcessHandle::destroyForcibly);
    }
  }
}
