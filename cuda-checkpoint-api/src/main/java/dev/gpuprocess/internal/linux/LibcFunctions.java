package dev.gpuprocess.internal.linux;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;
import org.jspecify.annotations.Nullable;

/**
 * The functions of the C library that the JDK lacks. Public because JNR's generated class needs it
 * to be; use {@link Libc} and the classes of this package.
 *
 * <p>File names are bytes in the encoding of file names, with a zero at the end. Memory is passed
 * as an array or by its address.
 */
public interface LibcFunctions {

  // Files

  int open(@In byte[] path, int flags, int mode);

  int close(int descriptor);

  int fsync(int descriptor);

  int fdatasync(int descriptor);

  int linkat(int from, @In byte[] file, int to, @In byte[] name, int flags);

  int mount(@In byte[] source, @In byte[] target, @In byte[] type, long flags, @In byte[] data);

  int sync_file_range(int descriptor, long offset, long bytes, int flags);

  int fcntl(int descriptor, int command, int argument);

  /** Returns -1 unless the descriptor is the controlling terminal of this process. */
  int tcgetpgrp(int descriptor);

  /** Takes a {@code struct flock}. */
  int fcntl(int descriptor, int command, @In @Out byte[] lock);

  int fchmod(int descriptor, int mode);

  int ftruncate(int descriptor, long bytes);

  int fallocate(int descriptor, int mode, long offset, long bytes);

  long read(int descriptor, @Out byte[] bytes, long count);

  long write(int descriptor, @In byte[] bytes, long count);

  long pread(int descriptor, @Out byte[] bytes, long count, long offset);

  long pread(int descriptor, long address, long count, long offset);

  /** Takes {@code struct iovec}s as pairs of numbers. */
  long preadv2(int descriptor, @In long[] vectors, int count, long offset, int flags);

  long pwrite(int descriptor, @In byte[] bytes, long count, long offset);

  long pwrite(int descriptor, long address, long count, long offset);

  int statfs(@In byte[] path, @Out byte[] status);

  int fstatfs(int descriptor, @Out byte[] status);

  // Memory

  /** The address is a pointer: jffi passes the last of six integers wrongly. */
  long mmap(
      @Nullable Pointer address,
      long bytes,
      int protection,
      int flags,
      int descriptor,
      long offset);

  int munmap(long address, long bytes);

  int madvise(long address, long bytes, int advice);

  int getpagesize();

  // Sockets and pipes

  int socket(int domain, int type, int protocol);

  int socketpair(int domain, int type, int protocol, @Out int[] pair);

  int setsockopt(int socket, int level, int name, @In int[] value, int length);

  int setsockopt(int socket, int level, int name, @In byte[] value, int length);

  int getsockopt(int socket, int level, int name, @In @Out byte[] value, @In @Out int[] length);

  int shutdown(int socket, int how);

  long send(int socket, @In byte[] bytes, long length, int flags);

  long recv(int socket, @Out byte[] bytes, long length, int flags);

  long sendmsg(int socket, long message, int flags);

  long recvmsg(int socket, long message, int flags);

  int pipe2(@Out int[] pair, int flags);

  int eventfd(int initial, int flags);

  int poll(@In @Out byte[] descriptors, long count, int timeoutMillis);

  // Processes

  int kill(int pid, int signal);

  int waitid(int kind, int id, @Out byte[] answer, int options);

  int setns(int descriptor, int type);

  int unshare(int what);

  long lseek(int descriptor, long offset, int whence);

  int prlimit(int pid, int resource, @In long @Nullable [] limit, @Out long[] before);

  int sched_setaffinity(int task, long bytes, @In byte[] mask);

  long ptrace(long request, long task, long address, long data);

  long process_vm_readv(
      int pid, @In long[] local, long locals, @In long[] remote, long remotes, long flags);

  long process_vm_writev(
      int pid, @In long[] local, long locals, @In long[] remote, long remotes, long flags);

  long syscall(long number, long first, long second, long third);

  long syscall(long number, long first, long second, long third, long fourth);

  /** The last argument is a pointer: jffi passes the last of six integers wrongly. */
  long syscall(
      long number, long first, long second, long third, long fourth, @Nullable Pointer fifth);

  String strerror(int error);
}
