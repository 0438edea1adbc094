package dev.gpuprocess.internal.linux;

import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/**
 * A thread that enters a mount namespace, does one thing there, and ends: a thread can leave the
 * mount namespace of its process, and nothing else must ever run on it.
 */
final class NamespaceThread {

  private static final int CLONE_FS = 0x200;
  private static final int CLONE_NEWNS = 0x20000;

  private NamespaceThread() {}

  /** Native work. */
  @FunctionalInterface
  interface Work {

    /** Does the work; loads no class that was not used before. */
    int run() throws NativeCallException;
  }

  /**
   * Does native work in a mount namespace.
   *
   * @param namespace a file that identifies it
   * @return the result of the work
   * @throws NativeCallException if the work or the entry failed
   */
  static int within(Path namespace, Work work) throws NativeCallException {
    CompletableFuture<Integer> result = new CompletableFuture<>();
    Thread visitor = new Thread(() -> visit(namespace, work, result), "gpuprocess-namespace");
    visitor.setDaemon(true);
    visitor.start();
    try {
      return result.join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof NativeCallException failed) {
        throw failed;
      }
      throw e;
    }
  }

  private static void visit(Path namespace, Work work, CompletableFuture<Integer> result) {
    try {
      int descriptor = Libc.open(namespace, Libc.O_RDONLY);
      try {
        Libc.check(Libc.functions().unshare(CLONE_FS), "unshare");
        Libc.check(Libc.functions().setns(descriptor, CLONE_NEWNS), "setns to " + namespace);
      } finally {
        Libc.close(descriptor);
      }
      result.complete(work.run());
    } catch (FileSystemException | NativeCallException | RuntimeException | Error e) {
      result.completeExceptionally(e);
    }
  }
}
