package dev.gpuprocess.internal.remote;

import dev.gpuprocess.contract.DyingJvm;
import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Captive;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;

/**
 * Kills JVMs with SIGKILL, at random moments, while they make remote calls in a process that checks
 * its own registers and memory, and checks that this process continues.
 *
 * <pre>
 * java ... dev.gpuprocess.internal.remote.RemoteCallsKills 200 [SEED]
 * </pre>
 */
final class RemoteCallsKills {

  private static final Duration LIMIT = Duration.ofSeconds(20);

  /** The middle of the run, in which a JVM has warmed up. */
  private static final int MOST_MICROSECONDS = 30_000;

  private static final int MARGIN = 64;
  private static final String BEGINS = "begins";

  private RemoteCallsKills() {}

  /**
   * Runs the test.
   *
   * @param args the number of kills, and a seed
   */
  public static void main(String... args) throws Exception {
    int kills = Integer.parseInt(args[0]);
    long seed = args.length > 1 ? Long.parseLong(args[1]) : System.nanoTime();
    System.out.println("seed " + seed);
    if (run(kills, seed) > 0) {
      System.exit(1);
    }
  }

  /**
   * Kills JVMs, and adds the figure.
   *
   * @return how many processes were lost
   */
  static int run(int kills, long seed) throws Exception {
    Random random = new Random(seed);
    int lost = 0;
    for (int done = 0; done < kills; ) {
      // One process serves for several kills, until it is lost.
      try (Captive captive =
          random.nextBoolean() ? Captive.start("spin") : Captive.startInFirstThread("spin")) {
        captive.awaitTicks();
        String blocked = blocked(captive);
        int mapped = ProcFs.memory(captive.pid()).size();
        for (int i = 0; i < 10 && done < kills; i++, done++) {
          kill(captive, random.nextInt(MOST_MICROSECONDS));
          String fault = fault(captive, blocked, mapped);
          if (!fault.isEmpty()) {
            System.err.println("kill " + done + " of seed " + seed + ": " + fault);
            lost++;
            done++;
            break;
          }
        }
      }
    }
    Figures.add("remote calls: %s kills, %s lost".formatted(kills, lost));
    return lost;
  }

  private static void kill(Captive captive, int microseconds) throws IOException {
    Process borrower = DyingJvm.start(Borrower.class, List.of(Integer.toString(captive.pid())));
    boolean unused = DyingJvm.awaitEnd(borrower, BEGINS, microseconds * 1_000L);
  }

  /** Returns what is wrong with the process; empty if it is unharmed. */
  private static String fault(Captive captive, String blocked, int mapped) {
    try {
      Workload.await(() -> LifeSign.of(captive.pid()) == LifeSign.FREE, "the kernel to let go");
      captive.awaitTicks();
    } catch (IllegalStateException | AssertionError e) {
      return e.getMessage();
    }
    if (!blocked(captive).equals(blocked)) {
      return "signals are blocked: %s, and were: %s".formatted(blocked(captive), blocked);
    }
    int now = ProcFs.memory(captive.pid()).size();
    if (now > mapped + MARGIN) {
      return "%s mappings, %s before".formatted(now, mapped);
    }
    return captive.wrong() == 0 ? "" : "a check failed, line " + captive.line();
  }

  private static String blocked(Captive captive) {
    return ProcFs.status(captive.task()).getOrDefault("SigBlk", "?");
  }

  /** A program that makes remote calls until it is killed. */
  static final class Borrower {

    private Borrower() {}

    /**
     * Runs the program.
     *
     * @param args the pid
     */
    public static void main(String... args) throws Exception {
      ProcessIdentity process = ProcessIdentity.of(Long.parseLong(args[0])).orElseThrow();
      int file = Descriptors.openToRead(Path.of("/dev/zero"));
      for (boolean first = true; ; first = false) {
        try {
          RemoteCalls.borrow(process, LIMIT, thread -> session(thread, file));
        } catch (UntraceableException e) {
          System.out.print(e.reason());
          System.exit(3);
        }
        if (first) {
          System.out.println(BEGINS);
        }
      }
    }

    private static boolean session(RemoteThread thread, int file)
        throws UntraceableException, IOException {
      long at = thread.map(8192);
      try (PassedDescriptor passed = PassedDescriptor.pass(thread, file)) {
        thread.call(SystemCall.MMAP, at, 8192, 1, 0x12, passed.number(), 0);
      }
      thread.unmap(at, 8192);
      return true;
    }
  }
}
