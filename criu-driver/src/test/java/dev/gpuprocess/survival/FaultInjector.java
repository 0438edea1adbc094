package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Fault;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Injects random faults on a machine. */
final class FaultInjector {

  private static final List<String> FUNCTIONS =
      List.of("GetState", "Lock", "Checkpoint", "Restore", "Unlock");

  /** In the log. */
  private static final String NAME = "chaos";

  /** Functions that leave the process failed if they are interrupted. */
  private static final Set<String> BREAKABLE = Set.of("Checkpoint", "Restore");

  private static final int[] CODES = {1, 2, 3, 304, 401, 600, 801, 999};
  private static final int LONGEST_HANG_MILLIS = 3000;
  private static final int LONGEST_STOP_MILLIS = 700;
  private static final int LONGEST_PAUSE_MILLIS = 200;

  /** One of so many. */
  private static final int KILLED_OF = 8;

  private final SimulatedMachine machine;
  private final Random random;
  private final VerbLog log;
  private int made;

  FaultInjector(SimulatedMachine machine, Random random) {
    this.machine = machine;
    this.random = random;
    this.log = VerbLog.open(VerbLog.beside(machine.images()));
  }

  /** Returns the number of faults so far. */
  int made() {
    return made;
  }

  /** Runs until the time is over; then no fault is left. */
  void rage(List<SoakSubject> subjects, long endNanos) {
    while (System.nanoTime() < endNanos) {
      SoakSubject subject = subjects.get(random.nextInt(subjects.size()));
      switch (random.nextInt(8)) {
        case 0, 1, 2, 3 -> machine.driver.faults(fault(subject));
        case 4 -> stop(subject);
        case 5 -> killCriu(subject);
        case 6 -> machine.driver.clearFaults();
        default -> {
          if (random.nextInt(KILLED_OF) == 0) {
            subject.kill();
            log.tell(subject.pid(), NAME, "killed it");
          }
        }
      }
      made++;
      pause(LONGEST_PAUSE_MILLIS);
    }
    machine.calm();
  }

  private Fault fault(SoakSubject subject) {
    String function = FUNCTIONS.get(random.nextInt(FUNCTIONS.size()));
    Fault fault =
        Fault.in("cuCheckpointProcess" + function).pid(subject.pid()).call(1 + random.nextInt(3));
    int where = random.nextInt(4);
    boolean hangs = random.nextInt(3) == 0;
    if (where == 1 && !hangs && BREAKABLE.contains(function)) {
      subject.mayBreak();
    }
    Fault placed =
        switch (where) {
          case 0 -> fault.after();
          case 1 -> fault.during();
          default -> fault;
        };
    return hangs
        ? placed.hangs(Duration.ofMillis(random.nextInt(LONGEST_HANG_MILLIS)))
        : placed.answers(CODES[random.nextInt(CODES.length)]);
  }

  private void killCriu(SoakSubject subject) {
    if (subject.killCriu()) {
      log.tell(subject.pid(), NAME, "killed the CRIU that restores it");
    }
  }

  private void stop(SoakSubject subject) {
    if (subject.stop()) {
      log.tell(subject.pid(), NAME, "stopped it");
      pause(LONGEST_STOP_MILLIS);
      subject.goOn();
      log.tell(subject.pid(), NAME, "let it go on");
    }
  }

  private void pause(int longestMillis) {
    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1 + random.nextInt(longestMillis)));
  }
}
