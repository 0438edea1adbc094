package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.trace.UntraceableException;
import java.io.IOException;

/**
 * A process whose threads do not run, and in which mappings can be changed. It runs on when
 * the work is done, and when this JVM ends. For the thread that does the work.
 */
interface HeldProcess {

  /**
   * Gives the process a descriptor of this JVM, for {@link #mapFile}. It has it until the work is
   * done.
   *
   * @throws IOException when it cannot be done, or UntraceableException
   */
  void take(int descriptor) throws IOException, UntraceableException;

  /**
   * Maps the file that was {@linkplain #take taken} privately, to be read and written, in the place
   * of what is there.
   *
   * @throws IOException when it cannot be done, or UntraceableException; nothing changed then
   */
  void mapFile(AddressRange at, long offset) throws IOException, UntraceableException;

  /**
   * Maps new private memory, to be read and written, wherever there is room.
   *
   * @return its first address
   * @throws IOException when it cannot be done, or UntraceableException
   */
  long mapMemory(long bytes) throws IOException, UntraceableException;

  /**
   * Moves memory to the place of what is there.
   *
   * @throws IOException when it cannot be done, or UntraceableException; nothing changed then
   */
  void move(long from, AddressRange to) throws IOException, UntraceableException;

  /**
   * Removes a mapping.
   *
   * @throws IOException when it cannot be done, or UntraceableException
   */
  void unmap(AddressRange range) throws IOException, UntraceableException;
}
