package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.remote.RemoteCallException;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.options.Attribute;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;

/**
 * Reads the attributes of a process that only the process itself can read, by system calls of one
 * of its threads that change nothing.
 */
final class SystemCallProbe {

  private static final long GET_KEYRING_ID = 0;
  private static final long READ_KEYRING = 11;
  private static final long THREAD_KEYRING = -1;
  private static final long PROCESS_KEYRING = -2;
  private static final long SESSION_KEYRING = -3;
  private static final long USER_KEYRING = -4;
  private static final int KEYRING_BYTES = 4096;

  private static final int EPERM = 1;
  private static final int EFAULT = 14;

  private final LandlockWitnesses witnesses;

  SystemCallProbe(LandlockWitnesses witnesses) {
    this.witnesses = witnesses;
  }

  /**
   * Examines a process.
   *
   * @throws UntraceableException if seccomp forbids a call, or the thread was lost
   */
  List<FoundAttribute> examine(RemoteThread thread)
      throws UntraceableException, NativeCallException {
    List<FoundAttribute> found = new ArrayList<>();
    if (hasKeys(thread)) {
      found.add(
          new FoundAttribute(Attribute.KEYRINGS, thread.pid(), "has keys in keyrings of its own"));
    }
    if (isInLandlock(thread)) {
      found.add(new FoundAttribute(Attribute.LANDLOCK, thread.pid(), "is confined by Landlock"));
    }
    return found;
  }

  /** Makes a call and returns its result, or a negative error number. */
  private static long call(RemoteThread thread, SystemCall call, long... arguments)
      throws UntraceableException, NativeCallException {
    try {
      return thread.call(call, arguments);
    } catch (RemoteCallException e) {
      return -e.errno();
    }
  }

  /**
   * Returns whether the kernel denies the process what it grants to a process that differs in
   * nothing but Landlock: to inspect a process outside of its Landlock domain.
   */
  private boolean isInLandlock(RemoteThread thread)
      throws UntraceableException, NativeCallException {
    OptionalInt witness = witnesses.forThread(thread.task());
    return witness.isPresent()
        && inspect(thread, 0) == -EFAULT
        && inspect(thread, witness.getAsInt()) == -EPERM;
  }

  /** Returns EFAULT if the thread may inspect a process: the addresses are checked last. */
  private static long inspect(RemoteThread thread, int pid)
      throws UntraceableException, NativeCallException {
    return call(thread, SystemCall.GET_ROBUST_LIST, pid, 0, 0);
  }

  private static boolean hasKeys(RemoteThread thread)
      throws UntraceableException, NativeCallException {
    return keyring(thread, THREAD_KEYRING) > 0
        || keyring(thread, PROCESS_KEYRING) > 0
        || hasKeysInSession(thread);
  }

  private static long keyring(RemoteThread thread, long special)
      throws UntraceableException, NativeCallException {
    return call(thread, SystemCall.KEYCTL, GET_KEYRING_ID, special, 0);
  }

  /** A session keyring of a login has a link to the keyring of the user, and nothing else. */
  private static boolean hasKeysInSession(RemoteThread thread)
      throws UntraceableException, NativeCallException {
    long user = keyring(thread, USER_KEYRING);
    long session = keyring(thread, SESSION_KEYRING);
    if (session <= 0) {
      return false;
    }
    long address;
    try {
      address = thread.map(KEYRING_BYTES);
    } catch (RemoteCallException e) {
      return false;
    }
    long bytes = call(thread, SystemCall.KEYCTL, READ_KEYRING, session, address, KEYRING_BYTES);
    ByteBuffer keys =
        ByteBuffer.wrap(
                thread.memory().read(address, (int) Math.max(0, Math.min(bytes, KEYRING_BYTES))))
            .order(ByteOrder.nativeOrder());
    while (keys.remaining() >= Integer.BYTES) {
      if (keys.getInt() != user) {
        return true;
      }
    }
    return false;
  }
}
