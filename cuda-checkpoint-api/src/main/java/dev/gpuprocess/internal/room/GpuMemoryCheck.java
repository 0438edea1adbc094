package dev.gpuprocess.internal.room;

import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.gpu.Gpu;
import dev.gpuprocess.gpu.GpuInventory;
import dev.gpuprocess.gpu.GpuPair;
import dev.gpuprocess.gpu.GpuReading;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Checks that there is enough GPU memory to restore processes, and reserves it: for all of them or
 * for none. A restore that runs out of GPU memory loses the process for ever
 * (NVIDIA/cuda-checkpoint issue 44). Without an inventory nothing is known, and nothing is refused.
 */
public final class GpuMemoryCheck {

  private final GpuInventory inventory;
  private final Reservations reservations;
  private final List<Returning> returning;
  private final List<GpuPair> pairs;
  private final Duration patience;

  /**
   * A process to restore.
   *
   * @param held how much it held on the GPUs that it was on
   */
  public record Returning(ProcessIdentity process, Holdings held) {}

  /**
   * A check for processes that come back together.
   *
   * @param returning at least one
   * @param pairs the GPU that the memory of each GPU goes to; empty for the same GPUs
   */
  public GpuMemoryCheck(EngineContext context, List<Returning> returning, List<GpuPair> pairs) {
    this.inventory = context.inventory();
    this.reservations =
        new Reservations(
            context.state(),
            context.timeouts().transfer(),
            // Nobody else restores a process that CRIU works on.
            other ->
                ProcessLock.holderAtCriu(ProcessKey.of(other), context.state()).isPresent()
                    || StateReading.isIdle(context.cuda(), other.pid()));
    this.patience = context.timeouts().call();
    this.returning = List.copyOf(returning);
    this.pairs = pairs;
  }

  /** Why a restore would be refused now; empty if it would not. Changes nothing. */
  public Optional<GpuMemoryRefusal> whyNot() {
    List<ReservedMemory> others = reservations.look();
    return inventory.read().flatMap(reading -> whyNot(reading, others));
  }

  /**
   * Reserves the memory until the reservations are released or this JVM ends.
   *
   * @param refused creates the exception for a refusal
   * @return one reservation for each process, in their order
   * @throws InsufficientGpuMemoryException when there is too little
   * @throws dev.gpuprocess.error.OperationInProgressException when others hold the reservations for
   *     too long
   * @throws dev.gpuprocess.error.StateDirectoryException when the reservations cannot be read
   */
  public List<Reservation> reserve(
      Function<GpuMemoryRefusal, InsufficientGpuMemoryException> refused) {
    return reservations.alone(
        returning.get(0).process().pid(),
        patience,
        others -> {
          Optional<GpuReading> reading = inventory.read();
          if (reading.isEmpty()) {
            return Collections.nCopies(returning.size(), Reservation.NONE);
          }
          Optional<GpuMemoryRefusal> refusal = whyNot(reading.get(), others);
          if (refusal.isPresent()) {
            throw refused.apply(refusal.get());
          }
          return addAll(reading.get());
        });
  }

  private List<Reservation> addAll(GpuReading reading) {
    List<Reservation> all = new ArrayList<>();
    try {
      for (Returning each : returning) {
        all.add(reservations.add(ReservedMemory.of(each.process(), need(each, reading).bytes())));
      }
      return all;
    } catch (RuntimeException | Error e) {
      all.forEach(Reservation::close);
      throw e;
    }
  }

  private GpuMemoryNeed need(GpuReading reading) {
    return returning.stream()
        .map(each -> need(each, reading))
        .reduce(GpuMemoryNeed::plus)
        .orElseThrow();
  }

  private GpuMemoryNeed need(Returning one, GpuReading reading) {
    Holdings held = one.held();
    ProcessIdentity process = one.process();
    boolean oneGpu = reading.gpus().size() == 1 && reading.unreadable().isEmpty();
    OptionalLong bound =
        held.complete() ? OptionalLong.empty() : SaveArea.bound(process, oneGpu, patience);
    return GpuMemoryNeed.of(held, pairs, reading, bound);
  }

  private Optional<GpuMemoryRefusal> whyNot(GpuReading reading, List<ReservedMemory> claims) {
    GpuMemoryNeed need = need(reading);
    if (!need.isKnown()) {
      return Optional.of(
          new GpuMemoryRefusal(
              "it is not known how much %s held on the GPUs, and its host memory cannot be read to estimate it"
                  .formatted(name()),
              null,
              false,
              OptionalLong.empty()));
    }
    List<Gpu> gpus = new ArrayList<>(reading.gpus());
    boolean allSeen =
        returning.stream().allMatch(each -> each.held().complete())
            && gpus.stream().map(Gpu::uuid).toList().containsAll(need.bytes().keySet());
    if (!allSeen && !reading.unreadable().isEmpty()) {
      return Optional.of(unreadable(reading));
    }
    List<ReservedMemory> others =
        claims.stream()
            .filter(claim -> returning.stream().noneMatch(each -> claim.isOf(each.process())))
            .toList();
    return gpus.stream()
        .filter(gpu -> need.bytes().getOrDefault(gpu.uuid(), 0L) > 0)
        .flatMap(gpu -> shortage(gpu, need, others).stream())
        .findFirst();
  }

  private GpuMemoryRefusal unreadable(GpuReading reading) {
    return new GpuMemoryRefusal(
        "it is not known whether %s fits on the GPUs, because NVML cannot read all of them (%s)"
            .formatted(name(), String.join("; ", reading.unreadable())),
        null,
        false,
        OptionalLong.empty());
  }

  private Optional<GpuMemoryRefusal> shortage(
      Gpu gpu, GpuMemoryNeed need, List<ReservedMemory> others) {
    long needed = need.bytes().getOrDefault(gpu.uuid(), 0L);
    long reserved =
        others.stream().mapToLong(claim -> claim.stillNeeds(gpu)).reduce(0, GpuMemoryNeed::sum);
    if (gpu.freeBytes() - reserved >= needed) {
      return Optional.empty();
    }
    GpuShortage shortage =
        new GpuShortage(
            gpu.uuid(),
            needed,
            gpu.freeBytes(),
            reserved,
            gpu.users().stream().map(Gpu.User::pid).toList());
    boolean isKnown = !need.bounded().contains(gpu.uuid());
    return Optional.of(
        new GpuMemoryRefusal(
            isKnown ? text(shortage) : unknownText(shortage),
            shortage,
            isKnown,
            isKnown ? OptionalLong.empty() : OptionalLong.of(needed)));
  }

  private String text(GpuShortage shortage) {
    return "%s has %s MiB free%s but %s needs %s MiB there; %s"
        .formatted(
            shortage.gpu(),
            shortage.freeBytes() >> 20,
            reservedText(shortage),
            name(),
            shortage.neededBytes() >> 20,
            shortage.holders().isEmpty()
                ? "no process is known to hold the rest"
                : "the rest is held by " + shortage.holders());
  }

  private String unknownText(GpuShortage shortage) {
    return "it is not known how much %s held on %s: judged by its host memory at most %s MiB, and %s MiB are free there%s"
        .formatted(
            name(),
            shortage.gpu(),
            shortage.neededBytes() >> 20,
            shortage.freeBytes() >> 20,
            reservedText(shortage));
  }

  /** The processes in words. */
  private String name() {
    String pids =
        returning.stream()
            .map(each -> Integer.toString(each.process().pid()))
            .collect(Collectors.joining(", "));
    return returning.size() == 1 ? "process " + pids : "the job of the processes " + pids;
  }

  private static String reservedText(GpuShortage shortage) {
    return shortage.reservedBytes() == 0
        ? ""
        : ", of which other restores are about to take %s MiB,"
            .formatted(shortage.reservedBytes() >> 20);
  }
}
