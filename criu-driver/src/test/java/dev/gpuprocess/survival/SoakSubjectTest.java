package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What the soak does to a process must not be what the process is lost by: a signal that stops or
 * continues it while CRIU reads its memory can end it, and the soak would blame the library.
 */
@NullUnmarked
class SoakSubjectTest {

  @TempDir Path directory;
  private SimulatedMachine machine;
  private SoakSubject subject;

  @BeforeEach
  void start() {
    machine = new SimulatedMachine(directory);
    subject = SoakSubject.start(machine.driver, machine.state());
  }

  @AfterEach
  void end() {
    subject.close();
    machine.close();
  }

  private ProcessIdentity process() {
    return ProcessIdentity.of(subject.pid()).orElseThrow();
  }

  private boolean isStopped() {
    return Processes.stat(process()).filter(ProcStat::isStopped).isPresent();
  }

  private ProcessLock atCriu(String verb) {
    ProcessLock lock =
        ProcessLock.take(
            ProcessKey.of(process()),
            subject.pid(),
            verb,
            ProcessLock.Kind.MOVE,
            new StateDirectory(machine.state()),
            Duration.ofSeconds(1));
    lock.atCriu(true);
    return lock;
  }

  @Test
  void itIsNotStoppedInADump() {
    for (String verb : List.of("dump", "snapshot")) {
      ProcessLock lock = atCriu(verb);
      assertFalse(subject.stop());
      assertFalse(isStopped());
      lock.release();
    }
    assertTrue(subject.stop());
  }

  @Test
  void itIsStoppedInARestore() {
    ProcessLock lock = atCriu("restore");
    assertTrue(subject.stop());
    lock.release();
  }

  @Test
  void itIsContinuedWhenADumpIsOverThatHadBegunBefore() {
    assertTrue(subject.stop());
    assertTrue(Waiting.until(Duration.ofSeconds(10), this::isStopped));
    ProcessLock lock = atCriu("dump");
    CompletableFuture<Void> continued = CompletableFuture.runAsync(subject::goOn);
    assertTrue(isStopped());
    lock.release();
    continued.join();
    assertTrue(Waiting.until(Duration.ofSeconds(10), () -> !isStopped()));
    assertEquals(Optional.empty(), subject.fault());
  }
}
