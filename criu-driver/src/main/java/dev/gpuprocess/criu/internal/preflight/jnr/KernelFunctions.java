package dev.gpuprocess.criu.internal.preflight.jnr;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/** The C functions that are used to ask the kernel about sockets and pipes. */
public interface KernelFunctions {

  int open(String path, int flags);

  int close(int descriptor);

  int setns(int descriptor, int type);

  int socket(int domain, int type, int protocol);

  long send(int descriptor, @In byte[] bytes, long length, int flags);

  long recv(int descriptor, @Out byte[] bytes, long length, int flags);

  int poll(Pointer descriptors, long count, int timeoutMillis);

  long syscall(long number, long first, long second, long third);

  int statfs(String path, Pointer answer);

  String strerror(int errno);
}
