package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.TestJvm;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Buffers in a JVM with little direct memory. */
class CopyBuffersTest {

  private static final int MIB = 1 << 20;

  /** A JVM with 40 MiB, which has space for two large buffers and a few small ones. */
  public static final class Little {
    private Little() {}

    /**
     * Takes buffers until there are no more.
     *
     * @param args none
     */
    public static void main(String[] args) throws IOException {
      List<AlignedBuffer> large = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        large.add(CopyBuffers.LARGE.take());
      }
      long collections = collections();
      large.add(CopyBuffers.LARGE.take());
      System.out.println(sizes(large) + " " + (collections() - collections) + " collections");
      large.forEach(CopyBuffers::give);

      List<AlignedBuffer> small = new ArrayList<>();
      while (small.isEmpty() || small.get(small.size() - 1).size() == MIB) {
        small.add(CopyBuffers.SMALL.take());
      }
      small.add(CopyBuffers.SMALL.take());
      System.out.println(sizes(small.subList(small.size() - 2, small.size())));
      try {
        System.out.println(CopyBuffers.SMALL.take());
      } catch (IOException e) {
        System.out.println(e.getMessage());
      }
    }

    private static List<Integer> sizes(List<AlignedBuffer> buffers) {
      return buffers.stream().map(buffer -> buffer.size() / MIB).toList();
    }

    private static long collections() {
      return ManagementFactory.getGarbageCollectorMXBeans().stream()
          .mapToLong(GarbageCollectorMXBean::getCollectionCount)
          .sum();
    }
  }

  @Test
  void littleMemory_eachPoolTakesWhatTheOtherHas() throws Exception {
    Process jvm =
        new ProcessBuilder(TestJvm.command(List.of("-XX:MaxDirectMemorySize=40m"), Little.class))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String said = new String(jvm.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, jvm.waitFor(), said);
    List<String> lines = said.lines().toList();
    assertEquals("[16, 16, 1, 1] 0 collections", lines.get(0));
    assertEquals("[16, 16]", lines.get(1));
    assertTrue(lines.get(2).contains("-XX:MaxDirectMemorySize"), said);
  }
}
