package dev.gpuprocess.internal.os;

import static dev.gpuprocess.internal.os.Libc.checkAnswer;

import dev.gpuprocess.internal.jnr.ChildFunctions;
import dev.gpuprocess.internal.text.NativePath;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import jnr.ffi.Pointer;

/**
 * Starts a program as a child of this JVM that the JDK does not know, with exactly the given
 * descriptors, whatever else is open here. It is the leader of its own session, without a terminal,
 * and has no signal blocked or ignored. Arguments are bytes, and so is the environment: nothing is
 * lost that the locale cannot express.
 */
public final class ChildStart {

  private static final short SETSIGDEF = 0x04;
  private static final short SETSIGMASK = 0x08;
  private static final short SETSID = 0x80;

  // glibc's opaque structs have 80, 336 and 128 bytes; the rest is a reserve for other versions.
  private static final int ACTIONS_BYTES = 256;
  private static final int ATTRIBUTES_BYTES = 1024;
  private static final int SIGNAL_SET_BYTES = 256;

  private static final int ADDRESS = 8;

  private ChildStart() {}

  /**
   * Starts the program.
   *
   * @param program an absolute path
   * @param arguments all, the program's name first
   * @param withEnvironment whether it gets the environment of this process, or an empty one
   * @param descriptors become 0, 1, 2 and so on
   * @return its pid, which is its own until it is reaped by {@link PidDescriptor#reap}
   * @throws NativeCallException when it cannot be started
   */
  public static int start(
      Path program, List<byte[]> arguments, boolean withEnvironment, List<Integer> descriptors)
      throws NativeCallException {
    // Copies with numbers above those that the child uses: none gets in the way of another, and
    // none is copied onto itself, which would leave it to be closed by the exec.
    List<Integer> copies = new ArrayList<>();
    try {
      for (int descriptor : descriptors) {
        copies.add(ChildCalls.copyAbove(descriptor, descriptors.size()));
      }
      return spawn(program, arguments, withEnvironment, copies);
    } finally {
      copies.forEach(Libc::close);
    }
  }

  private static int spawn(
      Path program, List<byte[]> arguments, boolean withEnvironment, List<Integer> copies)
      throws NativeCallException {
    ChildFunctions c = ChildCalls.LIBRARY;
    Pointer actions = ChildCalls.allocate(ACTIONS_BYTES);
    Pointer attributes = ChildCalls.allocate(ATTRIBUTES_BYTES);
    List<Pointer> strings = new ArrayList<>();
    Pointer argv = addresses(arguments, strings);
    Pointer environment = withEnvironment ? environment() : addresses(List.of(), strings);
    int[] pid = new int[1];
    checkAnswer(c.posix_spawn_file_actions_init(actions), "posix_spawn_file_actions_init");
    try {
      checkAnswer(c.posix_spawnattr_init(attributes), "posix_spawnattr_init");
      try {
        for (int number = 0; number < copies.size(); number++) {
          checkAnswer(
              c.posix_spawn_file_actions_adddup2(actions, copies.get(number), number), "adddup2");
        }
        checkAnswer(
            c.posix_spawn_file_actions_addclosefrom_np(actions, copies.size()), "addclosefrom_np");
        describeSignals(c, attributes);
        checkAnswer(
            c.posix_spawn(pid, NativePath.cString(program), actions, attributes, argv, environment),
            "start " + program);
      } finally {
        // Nothing is thrown once there is a child.
        c.posix_spawnattr_destroy(attributes);
      }
    } finally {
      c.posix_spawn_file_actions_destroy(actions);
      Reference.reachabilityFence(strings);
    }
    return pid[0];
  }

  private static void describeSignals(ChildFunctions c, Pointer attributes)
      throws NativeCallException {
    Pointer signals = ChildCalls.allocate(SIGNAL_SET_BYTES);
    Libc.check(c.sigemptyset(signals), "sigemptyset");
    checkAnswer(c.posix_spawnattr_setsigmask(attributes, signals), "setsigmask");
    Libc.check(c.sigfillset(signals), "sigfillset");
    checkAnswer(c.posix_spawnattr_setsigdefault(attributes, signals), "setsigdefault");
    checkAnswer(
        c.posix_spawnattr_setflags(attributes, (short) (SETSIGDEF | SETSIGMASK | SETSID)),
        "setflags");
  }

  /** An array of addresses that ends with a zero; what they point to is kept in the list. */
  private static Pointer addresses(List<byte[]> texts, List<Pointer> kept) {
    Pointer array = ChildCalls.allocate((texts.size() + 1) * ADDRESS);
    for (int i = 0; i < texts.size(); i++) {
      byte[] text = Arrays.copyOf(texts.get(i), texts.get(i).length + 1);
      Pointer copy = ChildCalls.allocate(text.length);
      copy.put(0, text, 0, text.length);
      kept.add(copy);
      array.putAddress((long) i * ADDRESS, copy.address());
    }
    kept.add(array);
    return array;
  }

  /** {@code environ} of the C library, as it is now. */
  private static Pointer environment() {
    byte[] name = "environ\0".getBytes(StandardCharsets.US_ASCII);
    Pointer variable = ChildCalls.LIBRARY.dlsym(0, name);
    return variable.getPointer(0);
  }
}
