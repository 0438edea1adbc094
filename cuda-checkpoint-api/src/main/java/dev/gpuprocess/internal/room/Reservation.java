package dev.gpuprocess.internal.room;

/** Room on GPUs that nobody else is given, until it is released or this JVM ends. */
interface Reservation extends AutoCloseable {

  /** Of no room at all. */
  Reservation NONE = () -> {};

  /** Gives the room back. Does nothing the second time. */
  @Override
  void close();
}
