package dev.gpuprocess.internal.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.gpuprocess.image.ImageMachine;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.StringReader;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The fields that are read of {@code /proc/cpuinfo}. */
class CpuTest {

  private static Cpu read(String text) throws IOException {
    return Cpu.of(new BufferedReader(new StringReader(text)));
  }

  @Test
  void takesTheFlagsThatProgramsCanUse() throws IOException {
    Cpu cpu =
        read(
            """
            processor\t: 0
            vendor_id\t: GenuineIntel
            model name\t: Intel(R) Xeon(R) CPU @ 2.00GHz
            flags\t\t: fpu vmx sse4_2 avx2 avx512_bf16 amx_tile hypervisor erms md_clear avx2
            bugs\t\t: spectre_v1

            processor\t: 1
            flags\t\t: avx10
            """);
    assertEquals("Intel(R) Xeon(R) CPU @ 2.00GHz", cpu.name());
    assertEquals(List.of("amx_tile", "avx2", "avx512_bf16", "sse4_2"), cpu.features());
  }

  @Test
  void takesAllOfArmsFeatures() throws IOException {
    Cpu cpu = read("processor\t: 0\nFeatures\t: fp asimd sve2\nCPU part\t: 0xd4f\n");
    assertEquals(new Cpu("", List.of("asimd", "fp", "sve2")), cpu);
  }

  /** A hypervisor may report any text. */
  @Test
  void anyNameCanBeRecorded() throws IOException {
    Cpu cpu =
        read("model name\t: \u001b[2JZoë" + "x".repeat(500) + "\nflags\t: avx AVX \u001b s/e\n");
    assertEquals(List.of("avx"), cpu.features());
    ImageMachine unused =
        new ImageMachine("amd64", cpu.name(), cpu.features(), Map.of(), List.of());
    assertEquals(new Cpu("", List.of()), read("nothing known\n"));
  }

  @Test
  void knowsThisMachine() {
    assertFalse(Cpu.here().features().isEmpty());
  }
}
