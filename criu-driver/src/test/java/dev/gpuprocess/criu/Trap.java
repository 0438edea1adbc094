package dev.gpuprocess.criu;

/**
 * A trap of CRIU for its clients, with the proof that it exists and how the driver handles it.
 *
 * @param row its number and name in the documentation
 * @param proof shows CRIU's behaviour with {@link RawCriu}, then that of the driver
 */
record Trap(String row, Proof proof) {

  /** Shows the behaviour, or fails. */
  interface Proof {
    void show(TrapFixture fixture) throws Exception;
  }

  @Override
  public String toString() {
    return row;
  }
}
