package dev.gpuprocess.internal.linux;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * The functions of the C library that start children. They are bound apart from {@link
 * LibcFunctions} because {@code posix_spawn_file_actions_addclosefrom_np} needs glibc 2.34. Public
 * because JNR's generated class needs it to be; use {@link ChildStart}.
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
