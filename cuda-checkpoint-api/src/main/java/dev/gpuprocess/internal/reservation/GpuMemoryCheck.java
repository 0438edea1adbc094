package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Checks that there is enough GPU memory to restore processes, and reserves it: for all of them or
 * for none. A process whose restore runs out of GPU memory is lost (NVIDIA/cuda-checkpoint issue
 * 44). Without an inventory the free memory is unknown, and no restore is refused.
 */
public final class GpuMemoryCheck {

  private final GpuInventory inventory;
  private final Reservations reservations;
  private final List<Returning> returning;
  private final GpuMap map;
  private final Duration patience;

  /**
   * A process to restore.
   *
   * @param held its usage of the GPUs that it was on
   * @param machine the GPUs of the machine that it was on, by kind; empty for this machine
   */
  public record Returning(ProcessIdentity process, GpuUsage held, Map<GpuUuid, String> machine) {}

  /**
   * The GPU memory that is reserved for the processes. Immutable.
   *
   * @param pairs for the driver; empty for the same GPUs
   * @param reservations of the processes, in their order; unknown GPUs are not reserved
   */
  public record Reserved(Map<GpuUuid, GpuUuid> pairs, List<Reservation> reservations) {

    public Reserved {
      pairs = Collections.unmodifiableMap(new TreeMap<>(pairs));
      reservations = List.copyOf(reservations);
    }
  }

  /**
   * Creates a check for processes that are restored together.
   *
   * @param returning at least one process
   * @param map the GPU to which the memory of each GPU is restored
   */
  public GpuMemoryCheck(EngineContext context, List<Returning> returning, GpuMap map) {
    this.inventory = context.inventory();
    this.reservations =
        new Reservations(
            context.state(),
            context.timeouts().transfer(),
            // While CRIU works on a process, no other controller restores it.
            other ->
                ProcessLock.holderAtCriu(ProcessKey.of(other), context.state()).isPresent()
                    || StateReading.isIdle(context.cuda(), other.pid()));
    this.patience = context.timeouts().call();
    this.returning = List.copyOf(returning);
    this.map = map;
  }

  /** Returns why a restore would be refused now; empty if it would not. Changes nothing. */
  public Optional<GpuMemoryRefusal> whyNot() {
    List<ReservedMemory> others = reservations.look();
    Optional<GpuReading> reading = inventory.read();
    if (reading.isEmpty()) {
      return Optional.empty();
    }
    try {
      return whyNot(pairs(reading.get(), others), reading.get(), others);
    } catch (ImpossibleMapException e) {
      return Optional.of(
          new GpuMemoryRefusal(
              Objects.requireNonNull(e.getMessage()), null, true, OptionalLong.empty()));
    }
  }

  /**
   * Reserves the memory until the reservations are released or this JVM ends. An automatic map
   * chooses its GPUs here, while no other controller can reserve.
   *
   * @param refused creates the exception for a refusal
   * @param impossible creates the exception for a map that is not possible here
   * @throws InsufficientGpuMemoryException if there is too little memory
   * @throws FixAndRetryException with reason UNKNOWN_GPU if the map is not possible here
   * @throws dev.gpuprocess.error.OperationInProgressException if another controller locks the
   *     reservations for too long
   * @throws dev.gpuprocess.internal.state.StateDirectoryException if the reservations cannot be
   *     read
   */
  public Reserved reserve(
      Function<GpuMemoryRefusal, InsufficientGpuMemoryException> refused,
      Function<String, FixAndRetryException> impossible) {
    return reservations.alone(
        returning.get(0).process().pid(),
        patience,
        others -> {
          Optional<GpuReading> reading = inventory.read();
          try {
            if (reading.isEmpty()) {
              return new Reserved(
                  GpuPlacement.pairsUnseen(map),
                  Collections.nCopies(returning.size(), Reservation.NONE));
            }
            Map<GpuUuid, GpuUuid> pairs = pairs(reading.get(), others);
            Optional<GpuMemoryRefusal> refusal = whyNot(pairs, reading.get(), others);
            if (refusal.isPresent()) {
              throw refused.apply(refusal.get());
            }
            return new Reserved(pairs, addAll(pairs, reading.get()));
          } catch (ImpossibleMapException e) {
            throw impossible.apply(Objects.requireNonNull(e.getMessage()));
          }
        });
  }

  private Map<GpuUuid, GpuUuid> pairs(GpuReading reading, List<ReservedMemory> claims)
      throws ImpossibleMapException {
    List<ReservedMemory> others = notOurs(claims);
    GpuUsage held = returning.stream().map(Returning::held).reduce(GpuUsage::plus).orElseThrow();
    Map<GpuUuid, Long> needs = held.complete() ? need(Map.of(), reading).bytes() : Map.of();
    Map<GpuUuid, String> machine = new TreeMap<>();
    returning.forEach(each -> machine.putAll(each.machine()));
    return new GpuPlacement(
            held, needs, machine, reading, gpu -> gpu.freeBytes() - reserved(gpu, others))
        .pairs(map);
  }

  private List<Reservation> addAll(Map<GpuUuid, GpuUuid> pairs, GpuReading reading) {
    List<Reservation> all = new ArrayList<>();
    try {
      for (Returning each : returning) {
        GpuMemoryNeed need = need(each, pairs, reading);
        all.add(reservations.add(ReservedMemory.of(each.process(), need.bytes())));
      }
      return all;
    } catch (RuntimeException | Error e) {
      all.forEach(Reservation::close);
      throw e;
    }
  }

  private GpuMemoryNeed need(Map<GpuUuid, GpuUuid> pairs, GpuReading reading) {
    return returning.stream()
        .map(each -> need(each, pairs, reading))
        .reduce(GpuMemoryNeed::plus)
        .orElseThrow();
  }

  private GpuMemoryNeed need(Returning one, Map<GpuUuid, GpuUuid> pairs, GpuReading reading) {
    GpuUsage held = one.held();
    ProcessIdentity process = one.process();
    boolean oneGpu = reading.gpus().size() == 1 && reading.unreadable().isEmpty();
    OptionalLong bound =
        held.complete() ? OptionalLong.empty() : SaveAreaBound.bound(process, oneGpu, patience);
    return GpuMemoryNeed.of(held, pairs, reading, bound);
  }

  private Optional<GpuMemoryRefusal> whyNot(
      Map<GpuUuid, GpuUuid> pairs, GpuReading reading, List<ReservedMemory> claims) {
    GpuMemoryNeed need = need(pairs, reading);
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
    List<ReservedMemory> others = notOurs(claims);
    return gpus.stream()
        .filter(gpu -> need.bytes().getOrDefault(gpu.uuid(), 0L) > 0)
        .flatMap(gpu -> shortage(gpu, need, others).stream())
        .findFirst();
  }

  private List<ReservedMemory> notOurs(List<ReservedMemory> claims) {
    return claims.stream()
        .filter(claim -> returning.stream().noneMatch(each -> claim.isOf(each.process())))
        .toList();
  }

  private static long reserved(Gpu gpu, List<ReservedMemory> others) {
    return others.stream().mapToLong(claim -> claim.stillNeeds(gpu)).reduce(0, GpuUsage::sum);
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
    long reserved = reserved(gpu, others);
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

  /** Returns the processes in words. */
  private String name() {
    String pids =
        returning.stream()
            .map(each -> Integer.toString(each.process().pid()))
            .collect(Collectors.joining(", "));
    return returning.size() == 1 ? "process " + pids : "the tree of processes " + pids;
  }

  private static String reservedText(GpuShortage shortage) {
    return shortage.reservedBytes() == 0
        ? ""
        : ", of which other restores are about to take %s MiB,"
            .formatted(shortage.reservedBytes() >> 20);
  }
}
