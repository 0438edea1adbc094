package dev.gpuprocess.cuda;

import dev.gpuprocess.internal.cuda.LibCuda;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;

/** A caller, in a JVM of its own, that has few descriptors left when it locks a process. */
final class FewDescriptors {

  private FewDescriptors() {}

  /** Machine, pid, how many descriptors are left. */
  public static void main(String[] args) throws IOException {
    LibCuda driver = LibCuda.in(Path.of(args[0]));
    int pid = Integer.parseInt(args[1]);
    // Loads all, and finds the process: that would need more of them.
    driver.getState(pid);
    Deque<FileInputStream> held = new ArrayDeque<>();
    fill(held);
    for (int i = 0; i < Integer.parseInt(args[2]); i++) {
      held.pop().close();
    }
    CudaResult result = driver.lock(pid, 0);
    for (FileInputStream file : held) {
      file.close();
    }
    System.out.println(result.code());
  }

  private static void fill(Deque<FileInputStream> held) {
    try {
      while (true) {
        held.push(new FileInputStream("/dev/null"));
      }
    } catch (IOException full) {
      return;
    }
  }
}
