package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.cuda.GpuPair;
import java.util.Collections;
import java.util.List;

/**
 * Room on the GPUs for processes that come back together. Immutable.
 *
 * @param pairs what the driver is to be told; empty for the same GPUs
 * @param reservations one for each process, in their order
 */
public record ReservedGpus(List<GpuPair> pairs, List<Reservation> reservations) {

  public ReservedGpus {
    pairs = List.copyOf(pairs);
    reservations = List.copyOf(reservations);
  }

  /** Where nothing is known of the GPUs, nothing is reserved. */
  static ReservedGpus unchecked(List<GpuPair> pairs, int processes) {
    return new ReservedGpus(pairs, Collections.nCopies(processes, Reservation.NONE));
  }
}
