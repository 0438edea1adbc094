package dev.gpuprocess.slot;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.mockConstruction;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.HeldVerb;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotEvent.Kind;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.io.BufferedReader;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.mockito.MockedConstruction;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;

/** What {@link GpuSlot} promises, without a disk. */
@Tag("slow")
@SimulatedGpu(gpus = 2, mebibytes = 2048)
record GpuSlotTest(
    SimulatedDriver machine, GpuCheckpoints checkpoints, Counter one, Counter two, Counter three) {

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Duration HOUR = Duration.ofHours(1);
  private static final Duration FOREVER = ChronoUnit.FOREVER.getDuration();
  private static final int DRIVER_FAILS = 999;

  private GpuSlot open(Duration quantum, SlotEvents events) {
    return GpuSlot.named("main", checkpoints).quantum(quantum).listener(events).open();
  }

  private static SlotProcess find(GpuSlot slot, Counter counter) {
    return slot.processes().stream()
        .filter(each -> each.pid() == counter.pid())
        .findFirst()
        .orElseThrow();
  }

  private static void awaitPlace(GpuSlot slot, Counter counter, Place place) {
    assertTrue(
        Polling.until(PATIENCE, () -> find(slot, counter).place() == place),
        () -> slot.processes().toString());
  }

  private void assertGoesOn(Counter... counters) {
    for (Counter each : counters) {
      checkpoints.resume(each.pid());
      int value = each.value();
      assertEquals(value + 1, each.increment());
      assertTrue(each.verify().startsWith("ok "), each::verify);
    }
  }

  @Test
  void processKeepsItsGpuWhileNoOtherWantsIt() {
    SlotEvents events = new SlotEvents();
    Counter elsewhere = machine.start(Counter.launch(16).gpu(1));
    try (GpuSlot slot = open(Duration.ZERO, events)) {
      slot.acquire(one.pid());
      slot.release(one.pid());
      slot.acquire(elsewhere.pid());
      slot.acquire(one.pid());
      assertEquals(101, one.increment());
      assertEquals(List.of(), events.of(Kind.SUSPENDED));

      slot.release(one.pid());
      slot.acquire(two.pid());
      events.await(Kind.SUSPENDED, one.pid(), 1);
      assertEquals(101, two.increment());
      assertEquals(List.of("SUSPENDED " + one.pid()), events.of(Kind.SUSPENDED));
      assertEquals(101, elsewhere.increment());
    }
    assertGoesOn(one, two, elsewhere);
  }

  @Test
  void processesOfOnePriorityTakeTurnsInTheOrderInWhichTheyCame() {
    SlotEvents events = new SlotEvents();
    try (GpuSlot slot = open(Duration.ofMillis(50), events)) {
      slot.acquire(one.pid(), 1);
      slot.enqueue(two.pid(), 0);
      slot.enqueue(three.pid(), 0);
      slot.enqueue(one.pid(), 0); // only now the others are as urgent
      events.await(all -> all.of(Kind.STARTED).size() >= 7);
      List<String> started = events.of(Kind.STARTED).subList(0, 7);
      String a = "STARTED " + one.pid();
      String b = "STARTED " + two.pid();
      String c = "STARTED " + three.pid();
      assertEquals(List.of(a, b, c, a, b, c, a), started);
    }
    assertGoesOn(one, two, three);
  }

  @Test
  void urgentProcessTakesTheGpuAtOnceAndGivesItBack() {
    SlotEvents events = new SlotEvents();
    try (GpuSlot slot = open(HOUR, events)) {
      slot.enqueue(one.pid(), 0);
      events.await(Kind.STARTED, one.pid(), 1);
      slot.acquire(two.pid(), 1);
      assertEquals(101, two.increment());
      assertEquals(Place.HOST_MEMORY, find(slot, one).place());
      slot.release(two.pid());
      events.await(Kind.STARTED, one.pid(), 2);
      assertEquals(101, one.increment());
    }
    assertGoesOn(one, two);
  }

  @Test
  void runningProcessWhoseTurnItIsNotIsSuspended() {
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      slot.acquire(one.pid());
      slot.enqueue(two.pid(), 0);
      awaitPlace(slot, two, Place.HOST_MEMORY);
      assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(two.pid()));
    }
    assertGoesOn(one, two);
  }

  @Test
  void swapThatFailsLeavesTheProcessRunningThatRan() {
    SlotEvents events = new SlotEvents();
    try (GpuSlot slot = open(Duration.ZERO, events)) {
      slot.acquire(one.pid());
      slot.enqueue(two.pid(), -1);
      awaitPlace(slot, two, Place.HOST_MEMORY);
      machine.faults(
          Fault.in("cuCheckpointProcessCheckpoint").pid(one.pid()).answers(DRIVER_FAILS));
      slot.enqueue(two.pid(), 1);
      events.await(Kind.FAILED, one.pid(), 2);
      assertEquals(101, one.increment());

      machine.faults(Fault.in("cuCheckpointProcessRestore").pid(two.pid()).answers(2));
      slot.enqueue(two.pid(), 1);
      events.await(all -> all.count(Kind.STARTED, one.pid()) >= 2 || removed(all, two));
      machine.clearFaults();
      assertEquals(102, one.increment());
    }
  }

  private static boolean removed(SlotEvents events, Counter counter) {
    return events.count(Kind.REMOVED, counter.pid()) > 0;
  }

  @Test
  void processThatEndsLeavesTheQueue() {
    SlotEvents events = new SlotEvents();
    try (GpuSlot slot = open(HOUR, events)) {
      slot.acquire(one.pid());
      slot.enqueue(two.pid(), 0);
      slot.enqueue(three.pid(), 0);
      awaitPlace(slot, two, Place.HOST_MEMORY);
      two.kill();
      events.await(Kind.ENDED, two.pid(), 1);
      one.kill();
      slot.acquire(three.pid());
      assertEquals(
          List.of(three.pid()), slot.processes().stream().map(each -> (long) each.pid()).toList());
      assertThrows(NoSuchProcessException.class, () -> slot.acquire(one.pid()));
      assertThrows(NoSuchProcessException.class, () -> slot.remove(one.pid()));
    }
    assertGoesOn(three);
  }

  @Test
  void waitEndsAtItsDeadlineAndByCancellation() {
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      slot.acquire(one.pid());
      assertThrows(
          OperationTimedOutException.class,
          () -> slot.acquire(two.pid(), 0, Duration.ofMillis(200), new Cancellation()));
      assertFalse(find(slot, two).wanted());

      CompletableFuture<RunningProcess> turn =
          Cancellation.async(
              ForkJoinPool.commonPool(), by -> slot.acquire(two.pid(), 0, FOREVER, by));
      assertTrue(Polling.until(PATIENCE, () -> find(slot, two).wanted()));
      assertTrue(turn.cancel(true));
      assertInstanceOf(
          OperationCancelledException.class,
          assertThrows(CompletionException.class, turn::join).getCause());
      assertTrue(Polling.until(PATIENCE, () -> !find(slot, two).wanted()));

      Cancellation cancelled = new Cancellation();
      cancelled.cancel();
      assertThrows(
          OperationCancelledException.class, () -> slot.acquire(two.pid(), 0, FOREVER, cancelled));
      assertEquals(101, one.increment());
    }
    assertGoesOn(one, two);
  }

  @Test
  void cancelledSwapIsUndone() {
    try (GpuSlot slot = open(Duration.ZERO, new SlotEvents())) {
      slot.acquire(one.pid());
      one.spin(Duration.ofSeconds(8));
      assertThrows(
          OperationTimedOutException.class,
          () -> slot.acquire(two.pid(), 1, Duration.ofMillis(300), new Cancellation()));
      assertTrue(find(slot, one).wanted());
      assertEquals(101, one.increment());
      awaitPlace(slot, one, Place.GPU);
    }
    assertGoesOn(one, two);
  }

  @Test
  void nextControllerFindsTheSameQueue() {
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      slot.acquire(one.pid());
      slot.enqueue(two.pid(), 0);
      slot.enqueue(three.pid(), 5);
      slot.release(three.pid());
      awaitPlace(slot, two, Place.HOST_MEMORY);
      awaitPlace(slot, one, Place.GPU);
      OperationInProgressException busy =
          assertThrows(
              OperationInProgressException.class, () -> open(HOUR, new SlotEvents()).close());
      assertTrue(String.valueOf(busy.getMessage()).contains("slot main is open in this JVM"));
    }
    SlotEvents events = new SlotEvents();
    try (GpuSlot slot = open(Duration.ofMillis(50), events)) {
      assertEquals(3, slot.processes().size());
      assertFalse(find(slot, three).wanted());
      events.await(Kind.STARTED, two.pid(), 2);
      events.await(Kind.STARTED, one.pid(), 2);
      assertEquals(0, events.count(Kind.STARTED, three.pid()));
    }
    assertGoesOn(one, two, three);
  }

  /** Opens the slot, enters processes, and is killed. */
  static final class Killed {
    private static final String ENQUEUED = "all are enqueued";

    private Killed() {}

    public static void main(String[] args) throws IOException {
      GpuSlot slot =
          GpuSlot.named(
                  "main",
                  GpuCheckpoints.builder()
                      .cuda(Path.of(args[0]))
                      .stateDirectory(Path.of(args[1]))
                      .build())
              .quantum(Duration.ofMillis(20))
              .listener(System.out::println)
              .open();
      for (int i = 2; i < args.length; i++) {
        slot.enqueue(Long.parseLong(args[i]), 0);
      }
      System.out.println(ENQUEUED);
      int unused = System.in.read();
    }
  }

  @Test
  void killedControllerIsFollowedByOneThatFindsTheSameQueue() throws IOException {
    Process jvm =
        new ProcessBuilder(
                TestJvm.command(
                    Killed.class,
                    machine.directory().toString(),
                    machine.stateDirectory().toString(),
                    Long.toString(one.pid()),
                    Long.toString(two.pid()),
                    Long.toString(three.pid())))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try (BufferedReader said = jvm.inputReader()) {
      while (!Objects.requireNonNull(said.readLine()).equals(Killed.ENQUEUED)) {
        // The record has all three after that.
      }
      long started = 0;
      while (started < 6) {
        started += Objects.requireNonNull(said.readLine()).contains(" STARTED") ? 1 : 0;
      }
    } finally {
      TestJvm.end(jvm);
    }
    SlotEvents events = new SlotEvents();
    try (GpuSlot slot = open(Duration.ofMillis(20), events)) {
      assertEquals(3, slot.processes().size());
      for (Counter each : List.of(one, two, three)) {
        events.await(Kind.STARTED, each.pid(), 2);
      }
    }
    assertGoesOn(one, two, three);
  }

  @Test
  void removedProcessStaysWhereItIs() {
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      slot.acquire(one.pid());
      slot.enqueue(two.pid(), 0);
      awaitPlace(slot, two, Place.HOST_MEMORY);
      assertEquals(Place.HOST_MEMORY, slot.remove(two.pid()).place());
      assertEquals(Place.GPU, slot.remove(one.pid()).place());
      assertEquals(List.of(), slot.processes());
      assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(two.pid()));
      assertEquals(101, one.increment());
    }
    assertGoesOn(two);
  }

  @Test
  void suspendByPidWaitsForTheVerbUnderWay() {
    CompletableFuture<CheckpointedProcess> suspended;
    try (HeldVerb other = HeldVerb.start(checkpoints, there -> there.process(one.pid()).lock())) {
      SuspendOptions soon = SuspendOptions.builder().deadline(Duration.ofMillis(100)).build();
      assertThrows(OperationInProgressException.class, () -> checkpoints.suspend(one.pid(), soon));
      suspended = CompletableFuture.supplyAsync(() -> checkpoints.suspend(one.pid()));
      other.letGo();
      assertEquals(one.pid(), suspended.join().pid());
    }
    assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(one.pid()));
    assertEquals(one.pid(), checkpoints.suspend(one.pid()).pid());
    assertGoesOn(one);
  }

  private Path record() {
    return machine.stateDirectory().resolve("slot-main.queue");
  }

  /** In the place of the file that the next record is written to. */
  private Path blockTheRecord() throws IOException {
    Path partial = record().resolveSibling("slot-main.queue.new");
    await() // a record may just be written, which removes an empty directory
        .atMost(PATIENCE)
        .ignoreExceptionsInstanceOf(FileAlreadyExistsException.class)
        .ignoreExceptionsInstanceOf(NoSuchFileException.class)
        .until(
            () -> {
              Files.createDirectory(partial);
              return Files.exists(Files.createFile(partial.resolve("file")));
            });
    return partial;
  }

  private static void unblock(Path partial) throws IOException {
    // A record that is just being written would remove the directory once it is empty.
    Path aside = Files.move(partial, partial.resolveSibling("aside"));
    Files.delete(aside.resolve("file"));
    Files.delete(aside);
  }

  @Test
  void turnsGoOnWhileTheQueueCannotBeRecorded() throws IOException {
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      slot.acquire(one.pid());
      slot.enqueue(two.pid(), 0);
      awaitPlace(slot, two, Place.HOST_MEMORY);
      Path partial = blockTheRecord();
      slot.enqueue(two.pid(), 1);
      awaitPlace(slot, two, Place.GPU);
      assertEquals(101, two.increment());
      unblock(partial);
    }
    assertGoesOn(one, two);
  }

  @Test
  void processIsNotRemovedWithoutARecordOfThat() throws IOException {
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      slot.acquire(one.pid());
      Path partial = blockTheRecord();
      assertReason(
          FixAndRetryException.class,
          FixAndRetryException.Reason.STATE_DIRECTORY,
          () -> slot.remove(one.pid()));
      assertTrue(find(slot, one).wanted());
      unblock(partial);
      assertEquals(one.pid(), slot.remove(one.pid()).pid());
      assertEquals(List.of(), slot.processes());
    }
    assertGoesOn(one);
  }

  /** Another controller may have opened it. */
  @Test
  void closedSlotDoesNotWriteTheRecord() throws IOException {
    GpuSlot closed = open(HOUR, new SlotEvents());
    closed.acquire(one.pid());
    closed.close();
    Counter elsewhere = machine.start(Counter.launch(16).gpu(1));
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      slot.acquire(elsewhere.pid()); // without a swap, which would write the record once more
      String record = Files.readString(record());
      closed.release(one.pid());
      assertThrows(OperationCancelledException.class, () -> closed.remove(one.pid()));
      assertEquals(record, Files.readString(record()));
    }
    assertGoesOn(one, elsewhere);
  }

  @Test
  void anotherProcessOfThePidIsNotTouched() {
    ProcessIdentity real = ProcessIdentity.of(one.pid()).orElseThrow();
    ProcessIdentity other = new ProcessIdentity(real.pid(), real.startTicks() - 1);
    LockedProcess locked = checkpoints.process(one.pid()).lock();
    SlotMoves moves = new SlotMoves(checkpoints);
    assertThrows(NoSuchProcessException.class, () -> moves.look(other));
    assertThrows(NoSuchProcessException.class, () -> moves.suspend(other, new Cancellation()));
    assertEquals(ProcessState.LOCKED, checkpoints.inspect(one.pid()).state());
    locked.unlock();
    assertGoesOn(one);
  }

  @Test
  void failureOfAnotherProcessIsNotThatOfTheOneThatWaits() {
    SlotEvents events = new SlotEvents();
    try (GpuSlot slot = open(HOUR, events)) {
      slot.acquire(one.pid());
      machine.faults(
          Fault.in("cuCheckpointProcessCheckpoint").pid(one.pid()).answers(DRIVER_FAILS));
      CompletableFuture<RunningProcess> turn =
          CompletableFuture.supplyAsync(() -> slot.acquire(two.pid(), 1));
      events.await(Kind.FAILED, one.pid(), 1);
      two.kill();
      CompletionException failed = assertThrows(CompletionException.class, turn::join);
      assertInstanceOf(NoSuchProcessException.class, failed.getCause());
      machine.clearFaults();
    }
    assertGoesOn(one);
  }

  /** Whether a process has ended is asked of the driver, which may not answer. */
  @Test
  void driverThatHangsHoldsUpNoCaller() throws Exception {
    SlotMoves real = new SlotMoves(checkpoints);
    CountDownLatch asked = new CountDownLatch(1);
    CountDownLatch answered = new CountDownLatch(1);
    Answer<Object> hanging =
        call -> {
          if (call.getArguments().length == 1
              && call.getArgument(0) instanceof ProcessIdentity process
              && !process.isAlive()) {
            asked.countDown();
            assertTrue(answered.await(3, TimeUnit.MINUTES));
          }
          return invoked(call, real);
        };
    SlotEvents events = new SlotEvents();
    try (MockedConstruction<SlotMoves> moves =
            mockConstruction(SlotMoves.class, withSettings().defaultAnswer(hanging));
        GpuSlot slot = open(HOUR, events)) {
      assertFalse(moves.constructed().isEmpty());
      slot.acquire(one.pid());
      slot.enqueue(two.pid(), 0);
      awaitPlace(slot, two, Place.HOST_MEMORY);
      two.kill();
      assertTrue(asked.await(3, TimeUnit.MINUTES));
      List<SlotProcess> seen =
          CompletableFuture.supplyAsync(slot::processes).get(1, TimeUnit.MINUTES);
      assertEquals(2, seen.size());
      CompletableFuture.runAsync(() -> slot.release(one.pid())).get(1, TimeUnit.MINUTES);
      assertFalse(find(slot, one).wanted());
      answered.countDown();
      events.await(Kind.ENDED, two.pid(), 1);
    }
    assertGoesOn(one);
  }

  private static Object invoked(InvocationOnMock call, Object real) throws Throwable {
    Method method = call.getMethod();
    method.setAccessible(true);
    try {
      return method.invoke(real, call.getArguments());
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  /** A process is never said to have ended because it was just removed. */
  @Test
  void enqueueAndRemoveAtTheSameTime() {
    try (GpuSlot slot = open(HOUR, new SlotEvents())) {
      CompletableFuture<Void> removals =
          CompletableFuture.runAsync(
              () -> {
                for (int i = 0; i < 200; i++) {
                  try {
                    slot.remove(one.pid());
                  } catch (NoSuchProcessException notIn) {
                    Thread.onSpinWait();
                  }
                }
              });
      while (!removals.isDone()) {
        slot.enqueue(one.pid(), 0);
      }
      removals.join();
    }
    assertGoesOn(one);
  }

  @Test
  void strangerThatStaysSuspendedIsNamed() {
    CheckpointedProcess other = mock(CheckpointedProcess.class);
    when(other.pid()).thenReturn(4711);
    when(other.resume())
        .thenThrow(new OperationTimedOutException("no memory", Failure.of("resume", 4711)));
    ProcessIdentity process = new ProcessIdentity(4711, 1);
    RuntimeException why = SlotMoves.putBack(other, process);
    assertTrue(String.valueOf(why.getMessage()).contains("resume process 4711"), why::getMessage);
    assertInstanceOf(FixAndRetryException.class, why);
    assertInstanceOf(
        NoSuchProcessException.class, SlotMoves.putBack(mock(CheckpointedProcess.class), process));
  }
}
