package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.cuda.GpuPair;
import java.util.Collections;
import java.util.List;

/**
 * The GPU memory that is reserved for processes that are restored together. Immutable.
 *
 * @param pairs for the driver; empty for the same GPUs
 * @param reservations of the processes, in their order
 */
public record ReservedGpus(List<GpuPair> pairs, List<Reservation> reservations) {

  public ReservedGpus {
    pairs = List.copyOf(pairs);
    reservations = List.copyOf(reservations);
  }

  /** Returns no reservations, for unknown GPUs. */
  static ReservedGpus unchecked(List<GpuPair> pairs, int processes) {
    return new ReservedGpus(pairs, Collections.nCopies(processes, Reservation.NONE));
  }
}
