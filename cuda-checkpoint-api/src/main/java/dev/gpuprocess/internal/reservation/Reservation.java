package dev.gpuprocess.internal.reservation;

/** GPU memory that no other restore may use until it is released or this JVM ends. */
public interface Reservation extends AutoCloseable {

  /** Reserves nothing. */
  Reservation NONE = () -> {};

  /** Releases the memory. Does nothing the second time. */
  @Override
  void close();
}
