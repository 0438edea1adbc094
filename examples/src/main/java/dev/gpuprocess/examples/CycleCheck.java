package dev.gpuprocess.examples;

import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.proc.ProcFs;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/** Many suspends and resumes: the data stays right, and neither process grows. */
final class CycleCheck {

  private static final long MIB = 1L << 20;

  /** The first cycles load classes and fill pools. */
  private static final int WARM_UP = 3;

  private CycleCheck() {}

  static Outcome small(Machine machine, int cycles) {
    AtomicInteger expected = new AtomicInteger(100);
    try (Counter counter = machine.on(Counter.launch()).start()) {
      return run(
          cycles + " small cycles",
          machine,
          counter,
          cycles,
          () -> counter.increment() == expected.incrementAndGet());
    }
  }

  static Outcome large(Machine machine, int cycles) {
    int mebibytes = machine.isSimulated() ? 128 : 4096;
    String right = "ok %d bytes".formatted(mebibytes * MIB);
    try (Pattern pattern = machine.on(Pattern.launch(mebibytes)).start()) {
      return run(
          cycles + " large cycles", machine, pattern, cycles, () -> pattern.verify().equals(right));
    }
  }

  private static Outcome run(
      String what, Machine machine, Workload workload, int cycles, BooleanSupplier isRight) {
    int wrong = 0;
    for (int i = 0; i < WARM_UP; i++) {
      wrong += isRightAfterCycle(machine, workload, isRight) ? 0 : 1;
    }
    Growth growth = Growth.start(workload.pid());
    long began = System.nanoTime();
    for (int i = 0; i < cycles; i++) {
      wrong += isRightAfterCycle(machine, workload, isRight) ? 0 : 1;
    }
    double seconds = (System.nanoTime() - began) / 1e9 / cycles;
    return StuckChecks.outcome(
        what,
        wrong == 0 && growth.isHarmless(),
        String.format(Locale.ROOT, "%d wrong, %.3f s a cycle; %s", wrong, seconds, growth.since()));
  }

  private static boolean isRightAfterCycle(
      Machine machine, Workload workload, BooleanSupplier isRight) {
    RunningProcess running = machine.checkpoints().process(workload.pid()).suspend().resume();
    return running.pid() == workload.pid() && isRight.getAsBoolean();
  }

  /** What the target and we had at the start. */
  private record Growth(long pid, long bytes, int files, long ourBytes, int ourFiles) {

    /** A JVM's heap breathes; a leak of a page a cycle would be more. */
    private static final long OUR_BREATH = 256 * MIB;

    private static final long ITS_BREATH = 8 * MIB;

    static Growth start(long pid) {
      long us = ProcessHandle.current().pid();
      return new Growth(
          pid,
          ProcFs.anonymousBytes(pid),
          ProcFs.openFiles(pid).size(),
          ProcFs.anonymousBytes(us),
          ProcFs.openFiles(us).size());
    }

    private Growth grown() {
      Growth now = start(pid);
      return new Growth(
          pid,
          now.bytes - bytes,
          now.files - files,
          now.ourBytes - ourBytes,
          now.ourFiles - ourFiles);
    }

    boolean isHarmless() {
      Growth grown = grown();
      return grown.bytes < ITS_BREATH
          && grown.files <= 0
          && grown.ourBytes < OUR_BREATH
          && grown.ourFiles <= 2;
    }

    String since() {
      Growth grown = grown();
      return "target grew by %d KiB and %d descriptors, we by %d KiB and %d"
          .formatted(grown.bytes >> 10, grown.files, grown.ourBytes >> 10, grown.ourFiles);
    }
  }
}
