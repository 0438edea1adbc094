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
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Function;

/**
 * Checks that there is enough GPU memory to restore a process, and reserves it. A restore that runs
 * out of GPU memory loses the process for ever (NVIDIA/cuda-checkpoint issue 44). Without an
 * inventory nothing is known, and nothing is refused.
 */
public final class GpuMemoryCheck {

  private final GpuInventory inventory;
  private final Reservations reservations;
  private final ProcessIdentity process;
  private final Holdings held;
  private final List<GpuPair> pairs;
  private final Duration patience;

  /**
   * A check for one process.
   *
   * @param held how much it held on the GPUs that it was on
   * @param pairs the GPU that the memory of each GPU goes to; empty for the same GPUs
   */
  public GpuMemoryCheck(
      EngineContext context, ProcessIdentity process, Holdings held, List<GpuPair> pairs) {
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
    this.process = process;
    this.held = held;
    this.pairs = pairs;
  }

  /** Why a restore would be refused now; empty if it would not. Changes nothing. */
  public Optional<GpuMemoryRefusal> whyNot() {
    List<ReservedMemory> others = reservations.look();
    return inventory.read().flatMap(reading -> whyNot(reading, others));
  }

  /**
   * Reserves the memory until the reservation is released or this JVM ends.
   *
   * @param refused creates the exception for a refusal
   * @throws InsufficientGpuMemoryException when there is too little
   * @throws dev.gpuprocess.error.OperationInProgressException when others hold the reservations for
   *     too long
   * @throws dev.gpuprocess.error.StateDirectoryException when the reservations cannot be read
   */
  public Reservation reserve(Function<GpuMemoryRefusal, InsufficientGpuMemoryException> refused) {
    return reservations.alone(
        process.pid(),
        patience,
        others -> {
          Optional<GpuReading> reading = inventory.read();
          if (reading.isEmpty()) {
            return Reservation.NONE;
          }
          Optional<GpuMemoryRefusal> refusal = whyNot(reading.get(), others);
          if (refusal.isPresent()) {
            throw refused.apply(refusal.get());
          }
          return reservations.add(ReservedMemory.of(process, need(reading.get()).bytes()));
        });
  }

  private GpuMemoryNeed need(GpuReading reading) {
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
              "it is not known how much process %s held on the GPUs, and its host memory cannot be read to estimate it"
                  .formatted(process.pid()),
              null,
              false,
              OptionalLong.empty()));
    }
    List<Gpu> gpus = new ArrayList<>(reading.gpus());
    boolean allSeen =
        held.complete() && gpus.stream().map(Gpu::uuid).toList().containsAll(need.bytes().keySet());
    if (!allSeen && !reading.unreadable().isEmpty()) {
      return Optional.of(unreadable(reading));
    }
    List<ReservedMemory> others = claims.stream().filter(claim -> !claim.isOf(process)).toList();
    return gpus.stream()
        .filter(gpu -> need.bytes().getOrDefault(gpu.uuid(), 0L) > 0)
        .flatMap(gpu -> shortage(gpu, need, others).stream())
        .findFirst();
  }

  private GpuMemoryRefusal unreadable(GpuReading reading) {
    return new GpuMemoryRefusal(
        "it is not known whether process %s fits on the GPUs, because NVML cannot read all of them (%s)"
            .formatted(process.pid(), String.join("; ", reading.unreadable())),
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
    return "%s has %s MiB free%s but process %s needs %s MiB there; %s"
        .formatted(
            shortage.gpu(),
            shortage.freeBytes() >> 20,
            reservedText(shortage),
            process.pid(),
            shortage.neededBytes() >> 20,
            shortage.holders().isEmpty()
                ? "no process is known to hold the rest"
                : "the rest is held by " + shortage.holders());
  }

  private String unknownText(GpuShortage shortage) {
    return "it is not known how much process %s held on %s: judged by its host memory at most %s MiB, and %s MiB are free there%s"
        .formatted(
            process.pid(),
            shortage.gpu(),
            shortage.neededBytes() >> 20,
            shortage.freeBytes() >> 20,
            reservedText(shortage));
  }

  private static String reservedText(GpuShortage shortage) {
    return shortage.reservedBytes() == 0
        ? ""
        : ", of which other restores are about to take %s MiB,"
            .formatted(shortage.reservedBytes() >> 20);
  }
}
