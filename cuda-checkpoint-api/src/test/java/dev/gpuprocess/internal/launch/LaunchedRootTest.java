package dev.gpuprocess.internal.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.doThrow;
import static org.mockito.Mockito.mockStatic;
import static org.mockito.Mockito.spy;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.mockito.MockedStatic;

/** Launched processes where the thread that waits for them cannot start, or fails. */
class LaunchedRootTest {

  private static final Duration PATIENCE = Duration.ofMinutes(3);

  @TempDir Path directory;

  private static List<Long> children() {
    return ProcessHandle.current().children().map(ProcessHandle::pid).sorted().toList();
  }

  @Test
  void nothingIsStartedWithoutAThreadThatWaitsForIt() {
    LaunchOptions options = LaunchOptions.builder("sleep", "600").build();
    List<Long> before = children();
    try (MockedStatic<Threads> threads = mockStatic(Threads.class)) {
      threads.when(() -> Threads.daemon(any(), any())).thenReturn(new UnstartableThread());
      assertThrows(OutOfMemoryError.class, () -> GpuCheckpoints.standard().launch(options));
    }
    assertEquals(before, children());
  }

  @Test
  void exitIsSeenAlthoughItCannotBeAwaited() throws Exception {
    StateDirectory state = new StateDirectory(Files.createDirectory(directory.resolve("state")));
    Journal journal = new Journal(state);
    Process process = new ProcessBuilder("sleep", "600").start();
    ProcessIdentity root = ProcessIdentity.of(process.pid()).orElseThrow();
    Lifetime lifetime =
        spy(new Lifetime(root, PidDescriptor.open(root.pid()), null, true, journal));
    doThrow(new InternalError("of the thread")).when(lifetime).awaitRoot(any());
    LaunchedRoot launched =
        LaunchedRoot.restored(false, false, PATIENCE, journal, root, lifetime, ExitWatcher.start());
    process.destroyForcibly();
    assertTrue(launched.awaitEnd(PATIENCE));
    assertEquals(Optional.empty(), launched.status());
  }

  /** A thread of a machine that allows no more. */
  private static final class UnstartableThread extends Thread {
    @Override
    public synchronized void start() {
      throw new OutOfMemoryError("unable to create native thread");
    }
  }
}
