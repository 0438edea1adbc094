package dev.gpuprocess.internal.call;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RemoteController;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.Timeouts;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Callers that read a state while the driver does not return, since a verb is under way. */
@Tag("slow")
class StateReadingTest {

  private static final int POLLS = 150;
  private static final Duration HASTE = Duration.ofMillis(10);
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  @TempDir Path directory;
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;
  private GpuCheckpoints hasty;
  private Counter counter;

  @BeforeEach
  void start() {
    NativeCalls.awaitNoneLeftBehind();
    machine = SimulatedDriver.create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
    hasty =
        checkpoints.toBuilder()
            .timeouts(Timeouts.builder().lock(PATIENCE).call(HASTE).transfer(PATIENCE).build())
            .build();
    counter = Counter.start(machine);
  }

  @AfterEach
  void end() {
    machine.clearFaults();
    counter.close();
    machine.close();
    threads.shutdown();
    await().atMost(PATIENCE).until(() -> GpuCheckpoints.abandonedCalls() == 0);
  }

  private int pid() {
    return (int) counter.pid();
  }

  /** Every call on the process waits until the faults are cleared. */
  private void holdCheckpoints() {
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").during().hangs());
  }

  /** Waits until the driver does not return the state. */
  private OperationInProgressException awaitRefused() {
    return await()
        .atMost(Duration.ofMinutes(3)) // another JVM starts
        .ignoreExceptionsInstanceOf(OperationTimedOutException.class)
        .until(this::poll, Optional::isPresent)
        .orElseThrow();
  }

  private Optional<OperationInProgressException> poll() {
    try {
      hasty.inspect(pid());
      return Optional.empty();
    } catch (OperationInProgressException e) {
      return Optional.of(e);
    }
  }

  private long threadsThatRead() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals("gpuprocess getState " + pid()))
        .count();
  }

  @Test
  @OutsideUse("A3")
  void inspect_polledByTwoDuringALongCheckpoint_costsNothingAndDelaysNoVerb() {
    RunningProcess running = checkpoints.process(pid());
    holdCheckpoints();
    CompletableFuture<CheckpointedProcess> going =
        CompletableFuture.supplyAsync(running::suspend, threads);
    NativeCalls.await("cuCheckpointProcessCheckpoint");
    OperationInProgressException first = awaitRefused();
    assertEquals(Optional.of("suspend"), first.verb());
    assertEquals(OptionalLong.of(ProcessHandle.current().pid()), first.controller());
    ConcurrentLinkedQueue<OperationInProgressException> refused = new ConcurrentLinkedQueue<>();
    List<CompletableFuture<Void>> pollers =
        IntStream.range(0, 2)
            .mapToObj(
                i ->
                    CompletableFuture.runAsync(
                        () ->
                            IntStream.range(0, POLLS).forEach(n -> poll().ifPresent(refused::add)),
                        threads))
            .toList();
    pollers.forEach(CompletableFuture::join);
    assertTrue(refused.stream().allMatch(e -> e.verb().equals(Optional.of("suspend"))));
    assertTrue(refused.size() > POLLS, refused.size() + " of them waited in vain");
    assertEquals(1, threadsThatRead());
    assertEquals(1, GpuCheckpoints.abandonedCalls());
    assertFalse(going.isDone());
    BoundedCall.requireCapacity(running.identity(), "a verb");
    machine.clearFaults();
    going.join().close();
    assertEquals(101, counter.increment());
    checkpoints.process(pid()).suspend().close();
    assertEquals(102, counter.increment());
  }

  @Test
  @OutsideUse("A3")
  void inspect_anotherJvmIsInAVerb_namesVerbAndController() throws IOException {
    holdCheckpoints();
    try (RemoteController other = RemoteController.start(machine, checkpoints.stateDirectory())) {
      CompletableFuture<String> going =
          CompletableFuture.supplyAsync(() -> say(other, "suspend"), threads);
      OperationInProgressException refused = awaitRefused();
      long controller = other.identity().pid();
      assertEquals(Optional.of("suspend"), refused.verb());
      assertEquals(OptionalLong.of(controller), refused.controller());
      assertTrue(
          refused
              .getMessage()
              .contains("in the middle of suspend by the controller with pid " + controller),
          refused.getMessage());
      machine.clearFaults();
      assertEquals("done", going.join());
    }
    assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(pid()));
  }

  private String say(RemoteController other, String verb) {
    try {
      return other.say(verb, pid());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  @OutsideUse("A3")
  void verb_readersHangWithoutAVerb_isNotRefused() {
    RunningProcess running = checkpoints.process(pid());
    machine.faults(Fault.in("cuCheckpointProcessGetState").call(1).hangs());
    for (int i = 0; i <= BoundedCall.MAX_ABANDONED_ABOUT_ONE; i++) {
      assertThrows(OperationTimedOutException.class, () -> hasty.inspect(pid()));
      NativeCalls.await("cuCheckpointProcessGetState");
    }
    assertEquals(1, threadsThatRead());
    running.suspend().close();
    assertEquals(101, counter.increment());
  }

  @Test
  @OutsideUse("A3")
  void verb_itsOwnReadHangs_leavesTheTurnToOthers() {
    Duration enough = Duration.ofSeconds(6);
    RunningProcess running =
        checkpoints.toBuilder()
            .timeouts(Timeouts.builder().lock(PATIENCE).call(enough).transfer(PATIENCE).build())
            .build()
            .process(pid());
    machine.faults(Fault.in("cuCheckpointProcessGetState").hangs());
    assertThrows(OperationTimedOutException.class, running::lock);
    assertThrows(OperationTimedOutException.class, running::lock);
    assertEquals(
        Optional.empty(),
        ProcessLock.holder(
            ProcessKey.of(running.identity()), new StateDirectory(checkpoints.stateDirectory())));
    machine.clearFaults();
    checkpoints.process(pid()).lock().unlock();
    assertEquals(101, counter.increment());
  }

  @Test
  @OutsideUse("A3")
  void ask_oneCallIsUnderWay_newCallersShareTheNext() throws Exception {
    Semaphore answers = new Semaphore(0);
    AtomicInteger calls = new AtomicInteger();
    CudaDriver driver =
        answering(
            () -> {
              int number = calls.incrementAndGet();
              answers.acquireUninterruptibly();
              return ProcessState.of(number == 1 ? 0 : 1);
            });
    StateReading first = StateReading.ask(driver, pid());
    await().atMost(PATIENCE).until(() -> calls.get() == 1);
    List<StateReading> later =
        IntStream.range(0, 100).mapToObj(i -> StateReading.ask(driver, pid())).toList();
    assertThrows(TimeoutException.class, () -> later.get(0).await(HASTE));
    answers.release();
    assertEquals(ProcessState.RUNNING, first.await(PATIENCE).value());
    answers.release();
    for (StateReading each : later) {
      assertEquals(ProcessState.LOCKED, each.await(PATIENCE).value(), "the state after they asked");
    }
    assertEquals(2, calls.get());
    answers.release();
    assertEquals(ProcessState.LOCKED, StateReading.ask(driver, pid()).await(PATIENCE).value());
    assertEquals(3, calls.get());
  }

  @Test
  void ask_driverThrows_allCallersGetItAndTheNextCallIsMade() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    CudaDriver driver =
        answering(
            () -> {
              if (calls.incrementAndGet() == 1) {
                throw new IllegalStateException("a bug");
              }
              return ProcessState.RUNNING;
            });
    StateReading first = StateReading.ask(driver, pid());
    assertThrows(IllegalStateException.class, () -> first.await(PATIENCE));
    assertThrows(IllegalStateException.class, () -> first.await(PATIENCE));
    assertEquals(ProcessState.RUNNING, StateReading.ask(driver, pid()).await(PATIENCE).value());
    await().atMost(20, SECONDS).until(() -> threadsThatRead() == 0);
  }

  private static CudaDriver answering(Supplier<ProcessState> state) {
    return (CudaDriver)
        Proxy.newProxyInstance(
            CudaDriver.class.getClassLoader(),
            new Class<?>[] {CudaDriver.class},
            (proxy, method, args) ->
                switch (method.getName()) {
                  case "getState" -> new CudaAnswer<>(CudaResult.SUCCESS, state.get());
                  case "hashCode" -> System.identityHashCode(proxy);
                  case "equals" -> proxy == args[0];
                  default -> throw new UnsupportedOperationException(method.getName());
                });
  }
}
