package dev.gpuprocess.internal.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The JDK takes a stop of a process that it waits for as the exit of the process. */
class ChildWaitTest {

  private static final int SELF = Math.toIntExact(ProcessHandle.current().pid());

  @Test
  void theJdkWaitsForAProcessFromItsStart() throws Exception {
    Process child = new ProcessBuilder("sleep", "100").start();
    try {
      assertTrue(ChildWait.isFor(Math.toIntExact(child.pid())));
    } finally {
      child.destroyForcibly().waitFor();
    }
  }

  /** The kernel makes such a child one of the first thread, as it does with orphans. */
  @Test
  void theJdkWaitsAlsoWhenTheThreadThatStartedTheProcessHasEnded() throws Exception {
    CompletableFuture<Process> started = new CompletableFuture<>();
    Thread starter = new Thread(() -> started.complete(sleeper()), "starts a child");
    starter.start();
    Process child = started.get();
    try {
      int pid = Math.toIntExact(child.pid());
      starter.join();
      Workload.await(
          () -> ProcFs.childrenOfFirstThread(SELF).contains(pid), "the thread to be gone");
      Workload.await(() -> ChildWait.isFor(pid), "the JDK to wait for the process");
    } finally {
      child.destroyForcibly().waitFor();
    }
  }

  private static Process sleeper() {
    try {
      return new ProcessBuilder("sleep", "100").start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void itDoesNotWaitForAProcessOfAnother() {
    int parent = Math.toIntExact(ProcessHandle.current().parent().orElseThrow().pid());
    assertFalse(ChildWait.isFor(parent));
  }

  @ParameterizedTest
  @CsvSource({
    "61 0x1f 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7f, true",
    "61 0x20 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7f, false",
    "61 0xffffffffffffffff 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7f, true",
    "61 0xffffffff 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7f, true",
    "247 0x1 0x1f 0x7ffd 0x1000004 0x0 0x0 0x7ffd 0x7f, true",
    "247 0x1 0x20 0x7ffd 0x1000004 0x0 0x0 0x7ffd 0x7f, false",
    "247 0x0 0x20 0x7ffd 0x4 0x0 0x0 0x7ffd 0x7f, true",
    "247 0x3 0x1f 0x7ffd 0x4 0x0 0x0 0x7ffd 0x7f, false",
    "202 0x1f 0x189 0x0 0x0 0x0 0xffffffffffffffff 0x7ffd 0x7f, false",
    "running, false",
    "'', false"
  })
  void aWaitNamesItsProcess(String call, boolean isFor) {
    assertEquals(isFor, ChildWait.isFor(0x1f, CallText.words(call)));
  }
}
