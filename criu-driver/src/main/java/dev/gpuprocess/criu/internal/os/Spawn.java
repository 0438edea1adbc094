package dev.gpuprocess.criu.internal.os;

import static dev.gpuprocess.internal.os.Libc.checkAnswer;

import dev.gpuprocess.internal.os.Libc;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import jnr.ffi.Pointer;

/**
 * Starts a program with exactly these descriptors: {@code /dev/null} or a socket as 0, one pipe as
 * 1 and 2, and what it inherits as {@link #SOCKET} and the numbers after that. The JVM holds
 * descriptors without CLOEXEC; the child gets none of them. The child is the leader of its own
 * session, with no terminal on which sudo could prompt or a key could send it a signal, and has no
 * signal blocked or ignored.
 */
public final class Spawn {

  /** The number of the socket in a CRIU that is our child. */
  public static final int SOCKET = 3;

  private static final int NOTHING = -1;

  private static final String CONFIGURATION = "CRIU_CONFIG_FILE";

  private static final short SETSIGDEF = 0x04;
  private static final short SETSIGMASK = 0x08;
  private static final short SETSID = 0x80;

  // glibc's opaque structs have 80, 336 and 128 bytes; the rest is a reserve for other versions.
  private static final int ACTIONS_BYTES = 256;
  private static final int ATTRIBUTES_BYTES = 1024;
  private static final int SIGNAL_SET_BYTES = 256;

  private Spawn() {}

  /**
   * Starts the program.
   *
   * @param program an absolute path
   * @param arguments without the program's name
   * @param output becomes 1 and 2
   * @param numbered become {@link #SOCKET} and the numbers after it
   * @throws NativeCallException if it cannot be started
   */
  public static ChildProcess start(
      Path program, List<String> arguments, int output, List<Integer> numbered)
      throws NativeCallException {
    return start(program, arguments, NOTHING, output, numbered);
  }

  /**
   * The same, with a descriptor as standard input.
   *
   * @param input becomes 0
   */
  public static ChildProcess start(
      Path program, List<String> arguments, int input, int output, List<Integer> numbered)
      throws NativeCallException {
    // Copies numbered above those that the child uses, so that none gets in the way of another.
    List<Integer> copies = new ArrayList<>();
    try {
      int above = SOCKET + numbered.size();
      int in = input == NOTHING ? NOTHING : copy(input, above, copies);
      int out = copy(output, above, copies);
      List<Integer> rest = new ArrayList<>();
      for (int descriptor : numbered) {
        rest.add(copy(descriptor, above, copies));
      }
      return new ChildProcess(spawn(program, arguments, in, out, rest));
    } finally {
      copies.forEach(Libc::close);
    }
  }

  private static int copy(int descriptor, int above, List<Integer> copies)
      throws NativeCallException {
    int copy =
        Libc.check(
            LinuxCalls.functions().fcntl(descriptor, LinuxCalls.F_DUPFD_CLOEXEC, above),
            "copy of descriptor " + descriptor);
    copies.add(copy);
    return copy;
  }

  private static int spawn(
      Path program, List<String> arguments, int input, int output, List<Integer> numbered)
      throws NativeCallException {
    LinuxCalls.Functions c = LinuxCalls.functions();
    Pointer actions = LinuxCalls.allocate(ACTIONS_BYTES);
    Pointer attributes = LinuxCalls.allocate(ATTRIBUTES_BYTES);
    checkAnswer(c.posix_spawn_file_actions_init(actions), "posix_spawn_file_actions_init");
    try {
      checkAnswer(c.posix_spawnattr_init(attributes), "posix_spawnattr_init");
      try {
        describeDescriptors(c, actions, input, output, numbered);
        describeSignals(c, attributes);
        int[] pid = new int[1];
        checkAnswer(
            c.posix_spawn(
                pid,
                NativePath.cString(program),
                actions,
                attributes,
                arguments(program, arguments),
                environment(System.getenv())),
            "start " + program);
        return pid[0];
      } finally {
        // Nothing is thrown once there is a child.
        c.posix_spawnattr_destroy(attributes);
      }
    } finally {
      c.posix_spawn_file_actions_destroy(actions);
    }
  }

  private static void describeDescriptors(
      LinuxCalls.Functions c, Pointer actions, int input, int output, List<Integer> numbered)
      throws NativeCallException {
    if (input == NOTHING) {
      checkAnswer(
          c.posix_spawn_file_actions_addopen(
              actions, 0, NativePath.cString(Path.of("/dev/null")), Libc.O_RDONLY, 0),
          "addopen");
    } else {
      checkAnswer(c.posix_spawn_file_actions_adddup2(actions, input, 0), "adddup2");
    }
    checkAnswer(c.posix_spawn_file_actions_adddup2(actions, output, 1), "adddup2");
    checkAnswer(c.posix_spawn_file_actions_adddup2(actions, output, 2), "adddup2");
    int next = SOCKET;
    for (int descriptor : numbered) {
      checkAnswer(c.posix_spawn_file_actions_adddup2(actions, descriptor, next++), "adddup2");
    }
    checkAnswer(c.posix_spawn_file_actions_addclosefrom_np(actions, next), "addclosefrom_np");
  }

  private static void describeSignals(LinuxCalls.Functions c, Pointer attributes)
      throws NativeCallException {
    Pointer signals = LinuxCalls.allocate(SIGNAL_SET_BYTES);
    Libc.check(c.sigemptyset(signals), "sigemptyset");
    checkAnswer(c.posix_spawnattr_setsigmask(attributes, signals), "setsigmask");
    Libc.check(c.sigfillset(signals), "sigfillset");
    checkAnswer(c.posix_spawnattr_setsigdefault(attributes, signals), "setsigdefault");
    checkAnswer(
        c.posix_spawnattr_setflags(attributes, (short) (SETSIGDEF | SETSIGMASK | SETSID)),
        "setflags");
  }

  private static String[] arguments(Path program, List<String> arguments) {
    String[] all = new String[arguments.size() + 1];
    all[0] = program.toString();
    for (int i = 0; i < arguments.size(); i++) {
      all[i + 1] = arguments.get(i);
    }
    return all;
  }

  /**
   * Our environment without the variable that names a configuration file, which could change what a
   * request means.
   */
  private static String[] environment(Map<String, String> variables) {
    return variables.entrySet().stream()
        .filter(entry -> !entry.getKey().equals(CONFIGURATION))
        .map(entry -> entry.getKey() + "=" + entry.getValue())
        .toArray(String[]::new);
  }
}
