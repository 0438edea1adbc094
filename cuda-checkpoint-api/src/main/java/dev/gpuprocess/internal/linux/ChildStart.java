package dev.gpuprocess.internal.linux;

import static dev.gpuprocess.internal.linux.Libc.checkAnswer;

import dev.gpuprocess.internal.text.NativePath;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;
import org.jspecify.annotations.Nullable;

/**
 * Starts a program as a child of this JVM that the JDK does not know, with exactly the given
 * descriptors, whatever else is open here. The child leads its own session and has no terminal,
 * unless the caller chooses its own session, and blocks and ignores no signal. Arguments and
 * environment are bytes, so that names survive that the locale cannot express.
 */
public final class ChildStart {

  /** In a list of descriptors: {@code /dev/null}, to be read and written. */
  public static final int NOWHERE = -1;

  private static final Path NULL_DEVICE = Path.of("/dev/null");

  private static final short SETSIGDEF = 0x04;
  private static final short SETSIGMASK = 0x08;
  private static final short SETSID = 0x80;

  // glibc's opaque structs have 80, 336 and 128 bytes; the rest is a reserve for other versions.
  private static final int ACTIONS_BYTES = 256;
  private static final int ATTRIBUTES_BYTES = 1024;
  private static final int SIGNAL_SET_BYTES = 256;

  private static final int ADDRESS = 8;

  private static final SpawnFunctions LIBRARY = NativeLibraries.load(SpawnFunctions.class, "c");

  private ChildStart() {}

  /**
   * Starts the program.
   *
   * @param program an absolute path
   * @param arguments all, the program's name first
   * @param variables selects, by name, the environment variables that the child inherits
   * @param descriptors become 0, 1, 2 and so on; {@link #NOWHERE} stands for {@code /dev/null}
   * @return its pid, which cannot be reused until {@link PidDescriptor#reap} reaps it
   * @throws NativeCallException when it cannot be started
   */
  public static int start(
      Path program, List<byte[]> arguments, Predicate<String> variables, List<Integer> descriptors)
      throws NativeCallException {
    return start(null, program, arguments, variables, descriptors);
  }

  /**
   * Starts the program in a mount namespace.
   *
   * @param mounts a file that identifies the namespace, in which the program is searched; null for
   *     that of this JVM
   */
  public static int start(
      @Nullable Path mounts,
      Path program,
      List<byte[]> arguments,
      Predicate<String> variables,
      List<Integer> descriptors)
      throws NativeCallException {
    return start(mounts, program, arguments, variables, descriptors, SETSID);
  }

  /**
   * Starts the program in the session of this JVM, with its terminal. The parameters are those of
   * {@link #start}.
   */
  public static int startInThisSession(
      @Nullable Path mounts,
      Path program,
      List<byte[]> arguments,
      Predicate<String> variables,
      List<Integer> descriptors)
      throws NativeCallException {
    return start(mounts, program, arguments, variables, descriptors, (short) 0);
  }

  private static int start(
      @Nullable Path mounts,
      Path program,
      List<byte[]> arguments,
      Predicate<String> variables,
      List<Integer> descriptors,
      short session)
      throws NativeCallException {
    // Copies with numbers above those that the child uses: none gets in the way of another, and
    // none is copied onto itself, which would leave it to be closed by the exec.
    List<Integer> copies = new ArrayList<>();
    try {
      for (int descriptor : descriptors) {
        copies.add(descriptor == NOWHERE ? NOWHERE : copyAbove(descriptor, descriptors.size()));
      }
      return mounts == null
          ? spawn(program, arguments, variables, copies, session)
          : NamespaceThread.within(
              mounts, () -> spawn(program, arguments, variables, copies, session));
    } finally {
      copies.forEach(Libc::close);
    }
  }

  /** Copies a descriptor to a number that is at least {@code least}. */
  private static int copyAbove(int descriptor, int least) throws NativeCallException {
    return Libc.check(
        Libc.LIBRARY.fcntl(descriptor, Libc.F_DUPFD_CLOEXEC, least),
        "copy of descriptor " + descriptor);
  }

  private static int spawn(
      Path program,
      List<byte[]> arguments,
      Predicate<String> variables,
      List<Integer> copies,
      short session)
      throws NativeCallException {
    SpawnFunctions c = LIBRARY;
    Pointer actions = allocate(ACTIONS_BYTES);
    Pointer attributes = allocate(ATTRIBUTES_BYTES);
    List<Pointer> strings = new ArrayList<>();
    Pointer argv = addresses(arguments, strings);
    Pointer environment = environment(variables);
    int[] pid = new int[1];
    checkAnswer(c.posix_spawn_file_actions_init(actions), "posix_spawn_file_actions_init");
    try {
      checkAnswer(c.posix_spawnattr_init(attributes), "posix_spawnattr_init");
      try {
        describeDescriptors(c, actions, copies);
        describeSignals(c, attributes, session);
        checkAnswer(
            c.posix_spawn(pid, NativePath.cString(program), actions, attributes, argv, environment),
            "start " + program);
      } finally {
        // Nothing is thrown once there is a child.
        c.posix_spawnattr_destroy(attributes);
      }
    } finally {
      c.posix_spawn_file_actions_destroy(actions);
      // A call does not keep the memory of its arguments from being collected.
      Reference.reachabilityFence(actions);
      Reference.reachabilityFence(attributes);
      Reference.reachabilityFence(strings);
      Reference.reachabilityFence(environment);
    }
    return pid[0];
  }

  private static void describeDescriptors(SpawnFunctions c, Pointer actions, List<Integer> copies)
      throws NativeCallException {
    for (int number = 0; number < copies.size(); number++) {
      int copy = copies.get(number);
      checkAnswer(
          copy == NOWHERE
              ? c.posix_spawn_file_actions_addopen(
                  actions, number, NativePath.cString(NULL_DEVICE), Libc.O_RDWR, 0)
              : c.posix_spawn_file_actions_adddup2(actions, copy, number),
          "descriptor " + number);
    }
    checkAnswer(
        c.posix_spawn_file_actions_addclosefrom_np(actions, copies.size()), "addclosefrom_np");
  }

  private static void describeSignals(SpawnFunctions c, Pointer attributes, short session)
      throws NativeCallException {
    Pointer signals = allocate(SIGNAL_SET_BYTES);
    try {
      Libc.check(c.sigemptyset(signals), "sigemptyset");
      checkAnswer(c.posix_spawnattr_setsigmask(attributes, signals), "setsigmask");
      Libc.check(c.sigfillset(signals), "sigfillset");
      checkAnswer(c.posix_spawnattr_setsigdefault(attributes, signals), "setsigdefault");
    } finally {
      Reference.reachabilityFence(signals);
    }
    checkAnswer(
        c.posix_spawnattr_setflags(attributes, (short) (SETSIGDEF | SETSIGMASK | session)),
        "setflags");
  }

  /** Makes an array of addresses that ends with a zero; the list keeps the memory reachable. */
  private static Pointer addresses(List<byte[]> texts, List<Pointer> kept) {
    for (byte[] text : texts) {
      Pointer copy = allocate(text.length + 1);
      copy.put(0, text, 0, text.length);
      kept.add(copy);
    }
    Pointer array = array(kept);
    kept.add(array);
    return array;
  }

  private static Pointer array(List<Pointer> elements) {
    Pointer array = allocate((elements.size() + 1) * ADDRESS);
    for (int i = 0; i < elements.size(); i++) {
      array.putAddress((long) i * ADDRESS, elements.get(i).address());
    }
    return array;
  }

  /** Selects from {@code environ} of the C library, now. */
  private static Pointer environment(Predicate<String> variables) {
    Pointer all = LIBRARY.dlsym(0, "environ\0".getBytes(StandardCharsets.US_ASCII)).getPointer(0);
    List<Pointer> kept = new ArrayList<>();
    for (int i = 0; all != null; i++) {
      Pointer variable = all.getPointer((long) i * ADDRESS);
      if (variable == null) {
        break;
      }
      String text = variable.getString(0, Integer.MAX_VALUE, StandardCharsets.ISO_8859_1);
      int end = text.indexOf('=');
      if (variables.test(end < 0 ? text : text.substring(0, end))) {
        kept.add(variable);
      }
    }
    return array(kept);
  }

  /** Allocates zeroed memory, which is freed when the pointer is no longer reachable. */
  private static Pointer allocate(int bytes) {
    return Memory.allocateDirect(Runtime.getRuntime(LIBRARY), bytes, true);
  }

  /**
   * The functions of the C library that start children. They are bound apart from {@link
   * LibcFunctions} because {@code posix_spawn_file_actions_addclosefrom_np} needs glibc 2.34.
   * Public because JNR's generated class needs it to be.
   */
  public interface SpawnFunctions {

    int posix_spawn(
        @Out int[] pid,
        @In byte[] path,
        Pointer actions,
        Pointer attributes,
        Pointer arguments,
        Pointer environment);

    int posix_spawn_file_actions_init(Pointer actions);

    int posix_spawn_file_actions_addopen(
        Pointer actions, int number, @In byte[] path, int flags, int mode);

    int posix_spawn_file_actions_adddup2(Pointer actions, int from, int to);

    int posix_spawn_file_actions_addclosefrom_np(Pointer actions, int from);

    int posix_spawn_file_actions_destroy(Pointer actions);

    int posix_spawnattr_init(Pointer attributes);

    int posix_spawnattr_setflags(Pointer attributes, short flags);

    int posix_spawnattr_setsigmask(Pointer attributes, Pointer set);

    int posix_spawnattr_setsigdefault(Pointer attributes, Pointer set);

    int posix_spawnattr_destroy(Pointer attributes);

    int sigemptyset(Pointer set);

    int sigfillset(Pointer set);

    /** Searches all loaded libraries if {@code library} is 0. */
    Pointer dlsym(long library, @In byte[] name);
  }
}
