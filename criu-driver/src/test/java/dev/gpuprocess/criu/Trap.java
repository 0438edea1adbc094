package dev.gpuprocess.criu;

/**
 * One thing that bites whoever talks to CRIU, and the proof that it does and what comes of it here.
 *
 * @param row where it is noted, and its name
 * @param proof shows CRIU's behaviour with {@link RawCriu}, then what the driver makes of it
 */
record Trap(String row, Proof proof) {

  /** Shows it, or fails. */
  interface Proof {
    void show(TrapFixture ground) throws Exception;
  }

  @Override
  public String toString() {
    return row;
  }
}
