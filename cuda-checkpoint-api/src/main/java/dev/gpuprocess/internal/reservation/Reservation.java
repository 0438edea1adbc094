package dev.gpuprocess.internal.reservation;

/** GPU memory that no other restore may use, until its release or the end of this JVM. */
public interface Reservation extends AutoCloseable {

  /** Reserves nothing. */
  Reservation NONE = () -> {};

  /** Releases the memory. Does nothing the second time. */
  @Override
  void close();
}
