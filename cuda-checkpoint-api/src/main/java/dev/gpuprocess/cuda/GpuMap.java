package dev.gpuprocess.cuda;

import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Which GPU the memory of each GPU goes to at a restore. What it comes to is decided at the moment
 * of the restore, together with the check for free memory, and the driver gets a pair for every GPU
 * of the machine, as it demands. Other GPUs than before need CUDA 13.0 (driver 580) or later, and
 * GPUs of the same kind. Immutable.
 */
public sealed interface GpuMap {

  /** Back to the same GPUs. */
  record Same() implements GpuMap {}

  /**
   * Two GPUs change places; all others stay.
   *
   * @param one a GPU of this machine
   * @param other another one
   */
  record Swap(GpuUuid one, GpuUuid other) implements GpuMap {

    /**
     * Checks that there are two.
     *
     * @throws IllegalArgumentException when both are the same
     */
    public Swap {
      if (one.equals(other)) {
        throw new IllegalArgumentException(one + " cannot change places with itself");
      }
    }
  }

  /**
   * All that the process holds, on one GPU, goes to this one.
   *
   * @param target a GPU of this machine
   */
  record To(GpuUuid target) implements GpuMap {}

  /**
   * Memory stays on its GPU if there is room, and goes to another of the same kind otherwise.
   *
   * @param among the GPUs that may be used; empty for all of the machine
   */
  record Automatic(Set<GpuUuid> among) implements GpuMap {

    /** Copies the set. */
    public Automatic {
      among = Set.copyOf(among);
    }
  }

  /**
   * As said, pair by pair.
   *
   * @param targets by the GPU at checkpoint; for the driver, one entry for every GPU of the machine
   */
  record Exactly(Map<GpuUuid, GpuUuid> targets) implements GpuMap {

    /**
     * Checks that no two go to one.
     *
     * @throws IllegalArgumentException when two GPUs go to the same, or the map is empty
     */
    public Exactly {
      targets = Map.copyOf(targets);
      Set<GpuUuid> taken = new HashSet<>(targets.values());
      if (taken.isEmpty() || taken.size() < targets.size()) {
        throw new IllegalArgumentException(
            "every GPU goes to one of its own, and at least one goes somewhere: "
                + new TreeMap<>(targets));
      }
    }
  }

  /**
   * Back to the same GPUs: the default. Memory of a GPU of another machine, which is not here, is
   * refused.
   *
   * @return the map
   */
  static GpuMap same() {
    return new Same();
  }

  /**
   * Two GPUs change places; all others stay.
   *
   * @param one a GPU of this machine
   * @param other another one
   * @return the map
   * @throws IllegalArgumentException when both are the same
   */
  static GpuMap swap(GpuUuid one, GpuUuid other) {
    return new Swap(one, other);
  }

  /**
   * All that the process holds goes to one GPU. It must hold memory on exactly one.
   *
   * @param target a GPU of this machine
   * @return the map
   */
  static GpuMap to(GpuUuid target) {
    return new To(target);
  }

  /**
   * What is on a GPU comes back to it where there is room, and goes to another of the same kind
   * where not, to the one with most room. Where no GPU has room, the shortage is that of the same
   * GPUs. A process of which it is not known what it held goes back to the same GPUs; where it
   * comes from an image of another machine, each GPU of that machine that is not here goes to one
   * of the same kind, and the resume is refused where there are too few.
   *
   * @return the map
   */
  static GpuMap automatic() {
    return new Automatic(Set.of());
  }

  /**
   * As {@link #automatic()}, but memory comes to some GPUs alone, such as those that a scheduler
   * has given to a job; the others may be used by other jobs. The resume is refused if memory was
   * held on more GPUs than these, or, where it is not known which GPUs held memory, if there were
   * more GPUs.
   *
   * @param among GPUs of this machine; empty for all
   * @return the map
   */
  static GpuMap automatic(Collection<GpuUuid> among) {
    return new Automatic(Set.copyOf(among));
  }

  /**
   * As said, GPU by GPU.
   *
   * @param targets by the GPU at checkpoint, one for every GPU of the machine, including GPUs that
   *     stay and GPUs that the process cannot see: driver 580 refuses a partial list. Empty for the
   *     same GPUs
   * @return the map
   * @throws IllegalArgumentException when two GPUs go to the same
   */
  static GpuMap of(Map<GpuUuid, GpuUuid> targets) {
    return targets.isEmpty() ? same() : new Exactly(targets);
  }
}
