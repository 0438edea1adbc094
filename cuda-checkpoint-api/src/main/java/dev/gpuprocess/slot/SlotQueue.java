package dev.gpuprocess.slot;

import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The processes of a slot, and the decisions about them: which swap is due, and which process goes
 * to disk. It moves nothing itself. Moments are values of {@link System#nanoTime()}. Not safe for
 * use by several threads: the slot guards it by its lock.
 */
final class SlotQueue {

  /** The longest time between two checks whether the processes are alive. */
  private static final long LONGEST_PAUSE = 200_000_000;

  private static final long SHORTEST_PAUSE = 1_000_000;

  private static final Comparator<QueuedProcess> MOST_URGENT_FIRST =
      Comparator.comparing(QueuedProcess::isWanted)
          .thenComparingInt(QueuedProcess::priority)
          .reversed()
          .thenComparingLong(QueuedProcess::ticket);

  /**
   * A change of turns.
   *
   * @param in the process that gets its turn; null if the others only leave their GPUs
   * @param out the processes that leave their GPUs first
   */
  record Swap(@Nullable QueuedProcess in, List<QueuedProcess> out) {

    public Swap {
      out = List.copyOf(out);
    }

    /** Returns all processes that it moves. */
    public List<QueuedProcess> all() {
      List<QueuedProcess> all = new ArrayList<>(out);
      if (in != null) {
        all.add(in);
      }
      return all;
    }
  }

  private final long quantum;
  private final List<QueuedProcess> processes = new ArrayList<>();
  private final Set<Swap> underWay = new HashSet<>();
  private long lastTicket;

  /**
   * Creates an empty queue.
   *
   * @param quantumNanos how long a turn lasts at least, among processes of the same priority
   */
  SlotQueue(long quantumNanos) {
    this.quantum = quantumNanos;
  }

  /** Returns the next number in the order of coming. */
  long ticket() {
    return ++lastTicket;
  }

  /** Returns the processes: those with a turn first, then in the order of their turns. */
  List<QueuedProcess> inOrder() {
    return processes.stream()
        .sorted(
            Comparator.comparing(QueuedProcess::hasTurn)
                .reversed()
                .thenComparing(MOST_URGENT_FIRST))
        .toList();
  }

  void add(QueuedProcess process) {
    processes.add(process);
  }

  void remove(QueuedProcess process) {
    processes.remove(process);
  }

  boolean contains(QueuedProcess process) {
    return processes.contains(process);
  }

  /**
   * Finds the process that has a pid, or had it when it went to disk or its root exited.
   *
   * @param here the process that has the pid now
   */
  Optional<QueuedProcess> find(long pid, Optional<ProcessIdentity> here) {
    return processes.stream()
        .filter(
            each ->
                (each.place() == Place.DISK || here.isEmpty())
                    ? each.pid() == pid
                    : each.process().equals(here.get()))
        .findFirst();
  }

  /** Records that a swap has begun. Others that need the same GPUs are not due until its end. */
  void begin(Swap swap) {
    underWay.add(swap);
    swap.all().forEach(each -> each.setBusy(true));
  }

  void end(Swap swap) {
    underWay.remove(swap);
    swap.all().forEach(each -> each.setBusy(false));
  }

  /**
   * Returns the swaps that can begin now, which need different GPUs. A process that runs on free
   * GPUs gets its turn here, without a swap.
   */
  List<Swap> due(long now) {
    beginTurns(now);
    List<Swap> due = new ArrayList<>();
    List<QueuedProcess> claims = new ArrayList<>();
    underWay.forEach(swap -> claims.addAll(swap.all()));
    for (QueuedProcess next : waiting()) {
      if (!next.canMove(now)) {
        continue;
      }
      if (claims.stream().anyMatch(next::overlaps)) {
        claims.add(next);
        continue;
      }
      List<QueuedProcess> out = holders(next);
      if (out.stream().anyMatch(each -> isMoreUrgent(each, next) || !each.canMove(now))) {
        continue;
      }
      claims.add(next);
      if (out.stream().allMatch(each -> hasToLeave(each, next, now))) {
        claims.addAll(out);
        due.add(new Swap(next, out));
      }
    }
    for (QueuedProcess each : processes) {
      if (isInTheWay(each)
          && each.canMove(now)
          && due.stream().noneMatch(swap -> swap.all().contains(each))) {
        due.add(new Swap(null, List.of(each)));
      }
    }
    return due;
  }

  /** Begins the turns of processes that run on GPUs that no other process holds. */
  private void beginTurns(long now) {
    for (QueuedProcess each : inOrder()) {
      boolean isFree =
          processes.stream().noneMatch(other -> isAnotherTurn(other, each))
              && underWay.stream().flatMap(swap -> swap.all().stream()).noneMatch(each::overlaps);
      if (each.isOnGpu() && !each.hasTurn() && !each.isBusy() && isFree) {
        each.begin(now);
      }
    }
  }

  private static boolean isAnotherTurn(QueuedProcess other, QueuedProcess process) {
    return other != process && other.hasTurn() && other.overlaps(process);
  }

  private List<QueuedProcess> waiting() {
    return processes.stream()
        .filter(each -> each.isWanted() && !each.hasTurn())
        .sorted(MOST_URGENT_FIRST)
        .toList();
  }

  /** Returns the processes that must leave their GPUs before another one's turn can begin. */
  private List<QueuedProcess> holders(QueuedProcess next) {
    return processes.stream()
        .filter(each -> each != next && each.isOnGpu() && each.overlaps(next))
        .toList();
  }

  private static boolean isMoreUrgent(QueuedProcess holder, QueuedProcess next) {
    return holder.hasTurn() && holder.isWanted() && holder.priority() > next.priority();
  }

  private boolean hasToLeave(QueuedProcess holder, QueuedProcess next, long now) {
    return !holder.hasTurn()
        || !holder.isWanted()
        || next.priority() > holder.priority()
        || holder.restOfQuantum(now, quantum) <= 0;
  }

  /** Returns whether a process runs on GPUs that another one holds. */
  private boolean isInTheWay(QueuedProcess process) {
    return process.isOnGpu()
        && !process.hasTurn()
        && processes.stream().anyMatch(other -> isAnotherTurn(other, process));
  }

  /** Returns the time until {@link #due} may return something else, if nothing happens. */
  long pause(long now) {
    long pause = LONGEST_PAUSE;
    for (QueuedProcess each : processes) {
      if (each.pause(now) > 0) {
        pause = Math.min(pause, each.pause(now));
      }
      long rest = each.restOfQuantum(now, quantum);
      if (rest > 0) {
        pause = Math.min(pause, rest);
      }
    }
    return Math.max(SHORTEST_PAUSE, pause);
  }

  /** Returns whether a swap under way takes a process back to its GPUs. */
  private boolean isComing(QueuedProcess process) {
    return underWay.stream().anyMatch(swap -> swap.in() == process);
  }

  /**
   * Returns the least urgent suspended process, if the suspended processes hold more than the
   * budget.
   *
   * @param budget bytes of host memory
   */
  Optional<QueuedProcess> overBudget(long budget, long now) {
    List<QueuedProcess> suspended =
        processes.stream()
            .filter(each -> each.place() == Place.HOST_MEMORY && !isComing(each))
            .sorted(MOST_URGENT_FIRST.reversed())
            .toList();
    long bytes = suspended.stream().mapToLong(QueuedProcess::bytes).sum();
    return bytes <= budget
        ? Optional.empty()
        : suspended.stream().filter(each -> each.canMove(now)).findFirst();
  }
}
