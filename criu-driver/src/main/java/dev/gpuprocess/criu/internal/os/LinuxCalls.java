package dev.gpuprocess.criu.internal.os;

import static dev.gpuprocess.internal.linux.Libc.check;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.NativeLibraries;
import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.Path;
import java.util.OptionalLong;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * The functions of the C library for sockets, pipes, namespaces and processes that neither the JDK
 * nor jnr-posix offers. There is no policy here, except that every result goes through {@link
 * Libc#check}.
 */
public final class LinuxCalls {

  public static final int AF_UNIX = 1;
  static final int SOCK_SEQPACKET = 5;
  public static final int CLOEXEC = 0x80000; // the same value for SOCK_, O_ and EFD_
  static final int SCM_RIGHTS = 1;
  static final int SCM_CREDENTIALS = 2;
  static final int SO_PASSCRED = 16;
  static final int SOL_SOCKET = 1;
  static final int MSG_PEEK = 0x2;
  static final int MSG_TRUNC = 0x20;
  static final int MSG_CMSG_CLOEXEC = 0x40000000;
  public static final int MSG_NOSIGNAL = 0x4000;
  static final int SHUT_RDWR = 2;
  public static final int F_SETFL = 4;
  static final short POLLIN = 1;

  static final int EPIPE = 32;
  static final int ENOSYS = 38;
  static final int ECONNRESET = 104;

  // These have the same number on every architecture.
  private static final long SYS_PIDFD_SEND_SIGNAL = 424;
  private static final long SYS_PIDFD_OPEN = 434;
  private static final long SYS_PIDFD_GETFD = 438;

  // struct statfs begins with the type.
  private static final int STATFS_BYTES = 256;

  private static final Functions FUNCTIONS = NativeLibraries.load(Functions.class, "c");
  private static final Runtime RUNTIME = Runtime.getRuntime(FUNCTIONS);

  private LinuxCalls() {}

  /** The C names and signatures. Public because JNR's generated class needs it to be. */
  public interface Functions {
    int socket(int domain, int type, int protocol);

    int socketpair(int domain, int type, int protocol, @Out int[] pair);

    int pipe2(@Out int[] pair, int flags);

    int fcntl(int descriptor, int command, int argument);

    int shutdown(int descriptor, int how);

    int setsockopt(int descriptor, int level, int name, @In int[] value, int length);

    long send(int descriptor, @In byte[] bytes, long length, int flags);

    long recv(int descriptor, @Out byte[] bytes, long length, int flags);

    long recvmsg(int descriptor, Pointer message, int flags);

    int eventfd(int initial, int flags);

    int setns(int descriptor, int type);

    int statfs(@In byte[] path, Pointer answer);

    long write(int descriptor, @In byte[] bytes, long length);

    long read(int descriptor, @Out byte[] bytes, long length);

    int poll(Pointer descriptors, long count, int timeoutMillis);

    long syscall(long number, long first, long second, long third, long fourth);
  }

  public static Functions functions() {
    return FUNCTIONS;
  }

  /** Zeroed C memory, freed when the pointer is no longer reachable. */
  static Pointer allocate(int bytes) {
    return Memory.allocateDirect(RUNTIME, bytes, true);
  }

  /**
   * Makes a pipe. After a failed call JNR copies back values that are not descriptors, mostly 0;
   * they never leave this method, so that nobody closes them.
   *
   * @return the end to read from and the end to write to, both closed at exec
   */
  public static int[] pipe() throws NativeCallException {
    int[] pair = new int[2];
    check(FUNCTIONS.pipe2(pair, CLOEXEC), "pipe2");
    return pair;
  }

  /**
   * Makes a pair of UNIX sockets that preserve message boundaries, with the same care as {@link
   * #pipe}.
   */
  public static int[] packetSockets() throws NativeCallException {
    int[] pair = new int[2];
    check(FUNCTIONS.socketpair(AF_UNIX, SOCK_SEQPACKET | CLOEXEC, 0, pair), "socketpair");
    return pair;
  }

  public static int pidfdOpen(int pid) throws NativeCallException {
    return check(FUNCTIONS.syscall(SYS_PIDFD_OPEN, pid, 0, 0, 0), "pidfd_open " + pid);
  }

  static void pidfdSendSignal(int pidfd, int signal) throws NativeCallException {
    check(
        FUNCTIONS.syscall(SYS_PIDFD_SEND_SIGNAL, pidfd, signal, 0, 0),
        "pidfd_send_signal " + signal);
  }

  /** A copy of a descriptor of another process. */
  public static int pidfdGetfd(int pidfd, int descriptor) throws NativeCallException {
    return check(
        FUNCTIONS.syscall(SYS_PIDFD_GETFD, pidfd, descriptor, 0, 0), "pidfd_getfd " + descriptor);
  }

  /** The magic number of the type of file system that a file is on; empty if it cannot be asked. */
  public static OptionalLong fileSystemType(Path file) {
    Pointer answer = allocate(STATFS_BYTES);
    return FUNCTIONS.statfs(NativePath.cString(file), answer) == 0
        ? OptionalLong.of(answer.getLong(0))
        : OptionalLong.empty();
  }
}
