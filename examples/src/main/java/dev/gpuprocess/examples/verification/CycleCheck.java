package dev.gpuprocess.examples.verification;

import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/** A check that the data stays right and no process grows over many suspends and resumes. */
final class CycleCheck {

  private static final long MIB = 1L << 20;

  /** Cycles that load classes and fill pools. */
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
    String right = "ok %s bytes".formatted(mebibytes * MIB);
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
    Growth before = Growth.now(workload.pid());
    long began = System.nanoTime();
    for (int i = 0; i < cycles; i++) {
      wrong += isRightAfterCycle(machine, workload, isRight) ? 0 : 1;
    }
    double seconds = (System.nanoTime() - began) / 1e9 / cycles;
    Growth growth = Growth.now(workload.pid()).since(before);
    return Outcome.of(
        what,
        wrong == 0 && growth.isHarmless(),
        String.format(Locale.ROOT, "%s wrong, %.3f s a cycle; %s", wrong, seconds, growth));
  }

  private static boolean isRightAfterCycle(
      Machine machine, Workload workload, BooleanSupplier isRight) {
    RunningProcess running = machine.checkpoints().process(workload.pid()).suspend().resume();
    return running.pid() == workload.pid() && isRight.getAsBoolean();
  }

  /**
   * The memory, descriptors and threads of the process and of this JVM.
   *
   * @param bytes the anonymous memory of the process
   * @param files the descriptors of the process
   * @param ourHeap the used heap of this JVM
   * @param ourRest the anonymous memory of this JVM without its heap
   * @param ourFiles the descriptors of this JVM
   * @param ourThreads the threads of this JVM
   */
  private record Growth(
      long pid, long bytes, int files, long ourHeap, long ourRest, int ourFiles, int ourThreads) {

    /** Half of a leak of 16 KiB in each of 1,000 cycles. */
    private static final long TOLERANCE = 8 * MIB;

    /** For compiled code and the compiler. */
    private static final long JVM_TOLERANCE = 64 * MIB;

    static Growth now(long pid) {
      long us = ProcessHandle.current().pid();
      System.gc();
      MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
      return new Growth(
          pid,
          ProcFs.anonymousBytes(pid),
          ProcFs.openFiles(pid).size(),
          heap.getUsed(),
          ProcFs.anonymousBytes(us) - heap.getCommitted(),
          ProcFs.openFiles(us).size(),
          ManagementFactory.getThreadMXBean().getThreadCount());
    }

    Growth since(Growth before) {
      return new Growth(
          pid,
          bytes - before.bytes,
          files - before.files,
          ourHeap - before.ourHeap,
          ourRest - before.ourRest,
          ourFiles - before.ourFiles,
          ourThreads - before.ourThreads);
    }

    boolean isHarmless() {
      return bytes < TOLERANCE
          && files <= 0
          && ourHeap < TOLERANCE
          && ourRest < JVM_TOLERANCE
          && ourFiles <= 2
          && ourThreads <= 2;
    }

    @Override
    public String toString() {
      return "target grew by %s KiB and %s descriptors; we by %s KiB of live heap, %s KiB outside, %s descriptors, %s threads"
          .formatted(bytes >> 10, files, ourHeap >> 10, ourRest >> 10, ourFiles, ourThreads);
    }
  }
}
