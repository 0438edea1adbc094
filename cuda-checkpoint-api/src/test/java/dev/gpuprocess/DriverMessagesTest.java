package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.Timeouts;
import java.time.Duration;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a user reads when the driver refuses a call, also where the state cannot be read then. */
@SimulatedGpu
record DriverMessagesTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  DriverMessagesTest {
    checkpoints =
        checkpoints.toBuilder().timeouts(Timeouts.builder().memory(Duration.ZERO).build()).build();
  }

  private static final int NOT_SUPPORTED = 801;
  private static final int UNKNOWN = 999;

  private enum Verb {
    GET_STATE("cuCheckpointProcessGetState"),
    LOCK("cuCheckpointProcessLock"),
    CHECKPOINT("cuCheckpointProcessCheckpoint"),
    RESTORE("cuCheckpointProcessRestore"),
    UNLOCK("cuCheckpointProcessUnlock");

    private final String function;

    Verb(String function) {
      this.function = function;
    }

    Runnable prepared(GpuCheckpoints checkpoints, long pid) {
      if (this == GET_STATE) {
        return () -> checkpoints.inspect(pid);
      }
      RunningProcess running = checkpoints.process(pid);
      return switch (this) {
        case LOCK -> running::lock;
        case CHECKPOINT -> running.lock()::checkpoint;
        case RESTORE -> running.suspend()::restore;
        default -> running.lock()::unlock;
      };
    }
  }

  private void assertPlain(Throwable thrown, Verb verb, long pid) {
    String message = String.valueOf(thrown.getMessage());
    assertFalse(message.contains("null"), () -> verb + ": " + message);
    assertFalse(message.contains("cannot getState"), () -> verb + ": " + message);
    assertTrue(message.contains("process " + pid), () -> verb + ": " + message);
    assertFalse(message.endsWith("."), () -> verb + ": " + message);
    Stream.of(thrown.getSuppressed()).forEach(each -> assertPlain(each, verb, pid));
  }

  /** Each answer, with the state readable afterwards and not. */
  @ParameterizedTest
  @ValueSource(ints = {1, 3, 201, 304, 401, NOT_SUPPORTED, UNKNOWN})
  void answer_isToldInAPlainSentence(int answer) {
    for (Verb verb : Verb.values()) {
      for (boolean readable : new boolean[] {true, false}) {
        try (Counter counter = Counter.start(machine)) {
          Runnable prepared = verb.prepared(checkpoints, counter.pid());
          Fault refused = Fault.in(verb.function).answers(answer);
          if (readable || verb == Verb.GET_STATE) {
            machine.faults(refused);
          } else {
            machine.faults(refused, Fault.in(Verb.GET_STATE.function).fromCall(2).answers(UNKNOWN));
          }
          GpuCheckpointException e = assertThrows(GpuCheckpointException.class, prepared::run);
          machine.clearFaults();
          assertPlain(e, verb, counter.pid());
        }
      }
    }
  }

  @Test
  void stateThatTheDriverDoesNotSupport_isNotCalledManagedMemory(Counter counter) {
    machine.faults(Fault.in(Verb.GET_STATE.function).answers(NOT_SUPPORTED));
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
            () -> checkpoints.inspect(counter.pid()));
    machine.clearFaults();
    assertTrue(e.getMessage().contains("to getState of"), e.getMessage());
    assertFalse(e.getMessage().contains("managed memory"), e.getMessage());
    assertEquals("RunningProcess", checkpoints.inspect(counter.pid()).getClass().getSimpleName());
  }
}
