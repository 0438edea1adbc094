package dev.gpuprocess.internal.pool;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Too little host memory is found before any is made. */
class HostMemoryCapacityTest {

  private static final long MIB = 1 << 20;

  @TempDir Path directory;

  @Test
  void directoryOnADisk_isNoMemory() {
    String why = HostMemoryCapacity.obstacle(Path.of("/proc"), MIB).orElseThrow();
    assertEquals("/proc is not in memory (tmpfs)", why);
  }

  @Test
  @RequiresRoot("mounts")
  void tmpfsThatIsTooSmall_isNamed_andNothingIsMade() throws IOException {
    try (TmpFs small = TmpFs.mount(Files.createDirectory(directory.resolve("small")), "size=16m")) {
      String why = HostMemoryCapacity.obstacle(small.point(), 17 * MIB).orElseThrow();
      assertEquals(small.point() + " has 16 MiB of memory left, and 17 MiB are needed", why);
      try (HostMemoryPool pool = new HostMemoryPool(HostMemory.in(small.point()))) {
        // Each file alone would fit.
        IOException e =
            assertThrows(IOException.class, () -> pool.take(List.of(8 * MIB, 10 * MIB)));
        assertTrue(e.getMessage().contains("has 16 MiB of memory left"), e.getMessage());
        assertEquals(16 * MIB, small.point().toFile().getUsableSpace());
        pool.take(List.of(8 * MIB)).forEach(PreparedMemory::close);
      }
      assertEquals(16 * MIB, small.point().toFile().getUsableSpace());
    }
  }

  @Test
  void machineWithoutMemory_isNamed() throws IOException {
    Path meminfo =
        Files.writeString(
            directory.resolve("meminfo"), "MemAvailable:   300000 kB\nSwapFree:   0 kB\n");
    Path memory = Path.of("/dev/shm");
    assertEquals(Optional.empty(), HostMemoryCapacity.obstacle(memory, 16 * MIB, meminfo));
    String why = HostMemoryCapacity.obstacle(memory, 64 * MIB, meminfo).orElseThrow();
    assertTrue(why.startsWith("this machine has 292 MiB of memory left"), why);
  }

  @Test
  void noDirectory_isNamed() {
    try (HostMemoryPool pool = new HostMemoryPool(HostMemory.none())) {
      IOException e = assertThrows(IOException.class, () -> pool.take(List.of(MIB)));
      assertEquals("the settings say so", e.getMessage());
      assertEquals(Optional.of("the settings say so"), pool.obstacle(MIB));
    }
  }
}
