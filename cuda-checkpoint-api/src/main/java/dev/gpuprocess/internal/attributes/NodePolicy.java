package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.remote.RemoteCallException;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The NUMA policy of a thread or of a mapping.
 *
 * @param mode as {@code get_mempolicy(2)} returns it, with its flags
 * @param nodes the mask of nodes, in hexadecimal
 */
record NodePolicy(int mode, String nodes) {

  private static final Pattern TEXT = Pattern.compile("(\\d{1,9})/((?:[0-9a-f]{2}){128})");
  private static final int NODE_BYTES = 128;
  private static final int NODES = NODE_BYTES * Byte.SIZE;
  private static final int OF_ADDRESS = 2;
  private static final int BYTES = 8 + NODE_BYTES;

  /** Reads the policy of a thread. */
  static NodePolicy of(RemoteThread thread)
      throws RemoteCallException, UntraceableException, NativeCallException {
    return read(thread, 0, 0);
  }

  /** Reads the policy of the mapping at an address. */
  static NodePolicy of(RemoteThread thread, long address)
      throws RemoteCallException, UntraceableException, NativeCallException {
    return read(thread, address, OF_ADDRESS);
  }

  private static NodePolicy read(RemoteThread thread, long address, int flags)
      throws RemoteCallException, UntraceableException, NativeCallException {
    long buffer = thread.map(BYTES);
    long unused = thread.call(SystemCall.GET_MEMPOLICY, buffer, buffer + 8, NODES, address, flags);
    byte[] answer = thread.memory().read(buffer, BYTES);
    thread.unmap(buffer, BYTES);
    return new NodePolicy(
        ByteBuffer.wrap(answer).order(ByteOrder.nativeOrder()).getInt(),
        HexFormat.of().formatHex(Arrays.copyOfRange(answer, 8, BYTES)));
  }

  /** Returns whether it is that of a thread that has set none. */
  boolean isDefault() {
    return mode == 0;
  }

  /** Gives the policy to a thread. */
  void set(RemoteThread thread)
      throws RemoteCallException, UntraceableException, NativeCallException {
    long buffer = written(thread);
    long unused = thread.call(SystemCall.SET_MEMPOLICY, mode, buffer, NODES);
    thread.unmap(buffer, BYTES);
  }

  /** Gives the policy to mappings. */
  void bind(RemoteThread thread, AddressRange range)
      throws RemoteCallException, UntraceableException, NativeCallException {
    long buffer = written(thread);
    long unused =
        thread.call(SystemCall.MBIND, range.start(), range.bytes(), mode, buffer, NODES, 0);
    thread.unmap(buffer, BYTES);
  }

  private long written(RemoteThread thread)
      throws RemoteCallException, UntraceableException, NativeCallException {
    long buffer = thread.map(BYTES);
    thread.memory().write(buffer, HexFormat.of().parseHex(nodes));
    return buffer;
  }

  static Optional<NodePolicy> parse(String text) {
    Matcher fields = TEXT.matcher(text);
    return fields.matches()
        ? Optional.of(new NodePolicy(Integer.parseInt(fields.group(1)), fields.group(2)))
        : Optional.empty();
  }

  @Override
  public String toString() {
    return Integer.toString(mode) + "/" + nodes;
  }
}
