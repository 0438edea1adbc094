package dev.gpuprocess.examples.slurm;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The way of a job back into the queue, when its command is in an image. */
class JobQueueTest {

  private static final String REQUEUE = "requeue Incomplete 17";
  private static final String TASK = "lab-17-step0-rank1";

  @TempDir private Path directory;
  private FakeController controller;
  private SlurmJob job;
  private JobQueue queue;
  private final JobEvents events = new JobEvents();
  private final List<String> log = new ArrayList<>();

  /** What a test does when the controller has not answered. */
  private Executable silence = () -> {};

  @BeforeEach
  void makeController() throws IOException {
    controller = new FakeController(directory.resolve("slurm"));
    job = new SlurmJob("17", "lab-17-step0-rank0", 0, "node1", "low", List.of(TASK), List.of());
    queue = patientFor(Duration.ofMinutes(5));
    Files.createDirectory(
        directory.resolve("images").resolve(TASK),
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
  }

  private JobQueue patientFor(Duration time) {
    JobDirectory ours = JobDirectory.open(directory.resolve("images"), job, new ArrayList<>());
    return new JobQueue(job, controller.scontrol(), ours, events, this::log, time);
  }

  private void log(String line) {
    log.add(line);
    if (line.contains("does not answer")) {
      assertDoesNotThrow(silence);
    }
  }

  private void assertLogged(String part) {
    assertTrue(log.stream().anyMatch(line -> line.contains(part)), log::toString);
  }

  private static long in(int seconds) {
    return System.nanoTime() + Duration.ofSeconds(seconds).toNanos();
  }

  /** A long dump, or a long wait for other tasks, may have used up the grace. */
  @Test
  void requeuesABusyControllerAlsoWhenTheGraceIsOver() throws Exception {
    controller.failNextRequeue();
    assertTrue(queue.requeue(in(0)), log::toString);
    assertEquals(List.of(REQUEUE, REQUEUE), controller.changes());
  }

  /** Its SIGTERM comes a moment later; {@code scontrol requeue} alone would start it again. */
  @Test
  void jobThatWasCancelledStaysCancelled() throws Exception {
    controller.job("COMPLETING", 0);
    assertFalse(queue.requeue(in(60)), log::toString);
    assertEquals(List.of(REQUEUE), controller.changes(), "Slurm does nothing then");
    assertLogged("the job is COMPLETING and is not requeued");
    controller.job("COMPLETING", 0, "Requeue=1 PreemptTime=2026-11-26T09:30:00");
    assertFalse(queue.requeue(in(60)), "it was preempted before");
  }

  @Test
  void requeueThatWasCarriedOutWithoutAnAnswerIsNotRepeated() throws Exception {
    controller.job("COMPLETING", 1);
    assertTrue(queue.requeue(in(60)), log::toString);
    assertEquals(List.of(), controller.changes());
  }

  @ParameterizedTest
  @CsvSource({
    "RUNNING, true, requeue Incomplete 17", // a user's signal
    "COMPLETING, false, ''", // cancelled
    "TIMEOUT, true, requeue 17"
  })
  void sigtermIsUnderstoodWhenTheControllerAnswersAgain(
      String state, boolean isRequeued, String change) throws Exception {
    controller.loseAnswers();
    events.signalled("TERM");
    silence = () -> controller.job(state, 0);
    assertEquals(isRequeued, queue.requeue(in(60)), log::toString);
    assertEquals(change.isEmpty() ? List.of() : List.of(change), controller.changes());
  }

  @Test
  void requeueIsThatAfterTheLimitIfTheJobReachesItNow() throws Exception {
    controller.job("TIMEOUT", 0); // SIGTERM comes a moment later
    assertFalse(queue.requeue(in(60)), log::toString);
    assertEquals(List.of(REQUEUE, "requeue 17"), controller.changes());
  }

  @Test
  void jobThatIsNeverRequeuedIsNotAskedForAgain() throws Exception {
    controller.refuseRequeue();
    controller.job("RUNNING", 0, "Requeue=1 BatchFlag=0");
    assertFalse(queue.requeue(in(60)), log::toString);
    assertEquals(List.of(REQUEUE), controller.changes());
  }

  @Test
  void refusalEndsTheRequeueAtLast() throws Exception {
    controller.refuseRequeue();
    assertFalse(patientFor(Duration.ofSeconds(1)).requeue(in(0)), log::toString);
    assertLogged("not requeued: Job is not requeueable; to continue it: scontrol requeue 17");
  }

  @Test
  void controllerThatIsAwayIsAskedForSomeTimeAfterSigterm() throws Exception {
    controller.goAway();
    events.signalled("TERM");
    assertFalse(patientFor(Duration.ofSeconds(1)).requeue(in(0)), log::toString);
    assertLogged("if the job is not requeued: scontrol requeue 17");
    assertEquals(List.of(), controller.changes(), "a job that was cancelled stays so");
  }

  /** Slurm requeues no job at its time limit. */
  @Test
  void requeueAfterTheTimeLimitIsRepeatedWhileTheControllerIsBusy() throws Exception {
    controller.job("TIMEOUT", 0);
    controller.failNextRequeue();
    events.signalled("TERM");
    assertTrue(queue.requeue(in(60)), log::toString);
    queue.awaitTerm(); // came before
    assertEquals(List.of("requeue 17", "requeue 17"), controller.changes());
  }

  /** As after the death of its process. */
  @Test
  void waitForATaskThatDoesNotTellEndsBeforeTheTimeLimit() throws Exception {
    LocalDateTime end = LocalDateTime.now(ZoneId.systemDefault()).plusSeconds(30).withNano(0);
    controller.job("RUNNING", 0, "Requeue=1 PreemptTime=None EndTime=" + end);
    assertTrue(queue.awaitOthers(in(3600)), log::toString);
    assertLogged("requeues without a dump of task " + TASK);
  }
}
