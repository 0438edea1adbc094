package dev.gpuprocess.survival;

import dev.gpuprocess.contract.DyingJvm;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * A dump or a restore in which CRIU or its controller dies, and what is left of the process: it
 * runs on, or its image is complete and brings it back.
 */
final class CriuDeath {

  static final Duration PATIENCE = Duration.ofSeconds(60);

  /** Marks the controller and the CRIU that it starts. */
  private static final String MARK = "GPUPROCESS_STATE_DIR";

  private final CrashedVerb deed;
  private final HostSubject subject;
  private final Path place;
  private final FaultPoints moments = new FaultPoints();
  private boolean killed;

  /**
   * Brings the subject to where the deed begins.
   *
   * @param place a directory of its own
   */
  CriuDeath(CrashedVerb deed, HostSubject subject, Path place) {
    this.deed = deed;
    this.subject = subject;
    this.place = place;
    if (deed == CrashedVerb.RESTORE) {
      CrashedVerb.DUMP.act(new RpcCriuDriver(), subject.pid(), place);
    }
  }

  /** Runs the operation without a kill, and returns its moments. */
  List<String> rehearse() {
    deed.act(WatchedCriu.of(new RpcCriuDriver(), moments::reached, PATIENCE), subject.pid(), place);
    return moments.seen();
  }

  /** Runs the operation without a kill, and returns the stages at which CRIU was not found. */
  List<String> unseen() {
    List<String> unseen = new ArrayList<>();
    Consumer<String> look =
        moment -> {
          if (Signals.criuAt(place).isEmpty()) {
            unseen.add(moment);
          }
        };
    deed.act(WatchedCriu.of(new RpcCriuDriver(), look, PATIENCE), subject.pid(), place);
    return unseen;
  }

  /** Kills CRIU at the moment with this number, or some time after it. */
  Optional<String> ofCriuAt(int moment, long nanosLater) {
    Thread killer = new Thread(() -> killCriu(nanosLater), "killer");
    moments.at(moment, nanosLater > 0 ? killer::start : () -> killCriu(0));
    Optional<Fate> told = attempt();
    join(killer);
    return judge(told);
  }

  /** Kills CRIU this long after the operation has begun. */
  Optional<String> ofCriuAfter(long nanos) {
    Thread killer = new Thread(() -> killCriu(nanos), "killer");
    killer.start();
    Optional<Fate> told = attempt();
    join(killer);
    return judge(told);
  }

  /** Returns whether CRIU was killed. */
  boolean killed() {
    return killed;
  }

  private static void join(Thread thread) {
    try {
      thread.join(PATIENCE.toMillis());
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private void killCriu(long nanos) {
    LockSupport.parkNanos(nanos);
    Optional<ProcessIdentity> criu = criu();
    criu.ifPresent(process -> Signals.send(process, Signals.KILL));
    killed = criu.isPresent();
  }

  /** Returns the CRIU that this JVM has started, while it exists. */
  private Optional<ProcessIdentity> criu() {
    int self = Math.toIntExact(ProcessHandle.current().pid());
    return ProcFs.descendants(self).stream()
        .filter(pid -> ProcFs.stat(pid).map(ProcStat::parent).orElse(0) == self)
        .filter(pid -> pid != subject.pid() && ProcFs.isCriu(pid))
        .findFirst()
        .flatMap(ProcessIdentity::of)
        .filter(ProcessIdentity::isAlive);
  }

  /**
   * Returns the fate of the process in the driver's exception; empty when the operation succeeded.
   */
  private Optional<Fate> attempt() {
    try {
      deed.act(
          WatchedCriu.of(new RpcCriuDriver(), moments::reached, PATIENCE), subject.pid(), place);
      return Optional.empty();
    } catch (GpuCheckpointException e) {
      return Optional.of(Optional.ofNullable(e.failure().fate()).orElse(untouched()));
    }
  }

  /** The fate if CRIU died before the operation, when its version was read: none. */
  private Fate untouched() {
    return deed == CrashedVerb.DUMP ? Fate.RUNNING_AGAIN : Fate.HALF_RESTORED_REMOVED;
  }

  private Optional<String> judge(Optional<Fate> told) {
    boolean runs = subject.identity().isPresent();
    boolean right =
        switch (told.orElse(
            deed == CrashedVerb.DUMP ? Fate.GONE_AND_DURABLE : Fate.RUNNING_AGAIN)) {
          case RUNNING_AGAIN -> runs;
          case GONE_AND_DURABLE, HALF_RESTORED_REMOVED -> !runs;
          case ENDED, UNKNOWN -> false;
        };
    return right ? fault() : Optional.of("told " + told + ", and it runs: " + runs);
  }

  /**
   * The controlling JVM dies.
   *
   * @param moment at which it ends itself, -1 for none
   * @param nanos the time after which it is killed, if no moment is given
   */
  Optional<String> ofController(int moment, long nanos) {
    Process controller =
        ChildJvm.start(
            CriuDeathController.class,
            place,
            Map.of(MARK, place.toString()),
            List.of(
                deed.name(),
                Integer.toString(subject.pid()),
                place.toString(),
                Integer.toString(moment)));
    killed =
        DyingJvm.awaitEnd(controller, CriuDeathController.BEGINS, moment < 0 ? nanos : -1)
            || moment >= 0;
    return Waiting.until(PATIENCE, () -> Signals.criuAt(place).isEmpty())
        ? fault()
        : Optional.of("the CRIU of the dead controller runs on");
  }

  private Optional<String> fault() {
    if (!Waiting.until(PATIENCE, this::isSettled)) {
      return Optional.of("it stays stopped");
    }
    if (subject.identity().isEmpty()) {
      try {
        ImageDirectory.open(CrashedVerb.image(place)).verify();
      } catch (ImageException e) {
        return Optional.of("it is gone without an image: " + e.getMessage());
      }
      if (!Waiting.until(PATIENCE, () -> ProcessIdentity.of(subject.pid()).isEmpty())) {
        return Optional.of("its pid does not become free");
      }
      CrashedVerb.RESTORE.act(new RpcCriuDriver(), subject.pid(), place);
    }
    return subject.fault();
  }

  /** Waits for a tree that was killed or released by its tracer. */
  private boolean isSettled() {
    return subject
        .identity()
        .flatMap(Processes::stat)
        .map(stat -> !ProcFs.isEnding(stat.pid()) && !stat.isStopped())
        .orElse(true);
  }
}
