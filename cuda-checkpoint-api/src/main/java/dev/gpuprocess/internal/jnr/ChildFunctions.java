package dev.gpuprocess.internal.jnr;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * The functions of the C library that start children and wait for them, as {@code spawn.h}, {@code
 * sys/wait.h}, {@code sys/socket.h}, {@code poll.h} and {@code dlfcn.h} declare them. Use {@code
 * ChildStart}, {@code PidDescriptor} and {@code PacketSocketPair}.
 */
public interface ChildFunctions {

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

  /** With 0 for the library: of all that are loaded. */
  Pointer dlsym(long library, @In byte[] name);

  int socketpair(int domain, int type, int protocol, @Out int[] pair);

  int pipe2(@Out int[] pair, int flags);

  int fcntl(int descriptor, int command, int argument);

  int poll(@In @Out byte[] descriptors, long count, int timeoutMillis);

  long send(int socket, @In byte[] bytes, long length, int flags);

  long recv(int socket, @Out byte[] bytes, long length, int flags);

  int waitid(int kind, int id, @Out byte[] answer, int options);

  long syscall(long number, long first, long second, long third, long fourth);
}
