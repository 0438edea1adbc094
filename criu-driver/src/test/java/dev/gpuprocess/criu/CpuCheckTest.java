package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.restore.CpuImage;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.RestoreOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The check of the CPU's capabilities. */
@NullUnmarked
class CpuCheckTest {

  private static final int HEAD = 12; // two magic numbers and a size
  private static final int X86_ENTRY = 1;
  private static final int XSAVE_SIZE = 9;

  @TempDir Path directory;

  private static RpcCriuDriver real() {
    RealCriu.assume();
    return new RpcCriuDriver();
  }

  @Test
  void checkCpu_ofWhatWasRecordedHere_passes() {
    RpcCriuDriver driver = real();
    driver.recordCpu(directory);
    for (CpuCheck check : CpuCheck.values()) {
      driver.checkCpu(directory, check);
    }
    String[] files = directory.toFile().list();
    assertEquals(CpuImage.NAME, String.join(" ", files == null ? new String[0] : files));
  }

  @Test
  void checkCpu_ofAnotherCpu_namesTheDifference() throws IOException {
    RpcCriuDriver driver = real();
    driver.recordCpu(directory);
    alter(directory.resolve(CpuImage.NAME));
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.CPU_MISMATCH,
            () -> driver.checkCpu(directory, CpuCheck.INSTRUCTIONS));
    assertTrue(e.getMessage().contains("CPU xsave size mismatch (1/"), e.getMessage());
    driver.checkCpu(directory, CpuCheck.NONE);
  }

  @Test
  void checkCpu_ofAFileCutOff_isCorrupt() throws IOException {
    RpcCriuDriver driver = real();
    driver.recordCpu(directory);
    Path file = directory.resolve(CpuImage.NAME);
    Files.write(file, Arrays.copyOf(Files.readAllBytes(file), 20));
    assertReason(
        ImageException.class,
        ImageException.Reason.CORRUPT,
        () -> driver.checkCpu(directory, CpuCheck.INSTRUCTIONS));
  }

  @Test
  void checkCpu_ofNothing_isMissing() {
    RpcCriuDriver driver = real();
    assertReason(
        ImageException.class,
        ImageException.Reason.MISSING,
        () -> driver.checkCpu(directory, CpuCheck.INSTRUCTIONS));
    assertReason(
        ImageException.class,
        ImageException.Reason.DIRECTORY,
        () -> driver.recordCpu(directory.resolve("nowhere")));
  }

  @Test
  void restore_onAnotherCpu_isRefusedByItsType() throws IOException {
    DumpDirectories site = DumpDirectories.in(directory.resolve("site"), real());
    try (Workload workload = Workload.counter(directory)) {
      site.dump(
          workload.identity(),
          DumpDirectories.dump().criu(c -> c.cpuCheck(CpuCheck.INSTRUCTIONS)).build());
      alter(site.images().resolve(CpuImage.NAME));
      MachineUnfitException e =
          assertReason(
              MachineUnfitException.class,
              MachineUnfitException.Reason.CPU_MISMATCH,
              () -> site.restore(workload.pid(), DumpDirectories.shellJob().build()));
      assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
      RestoreOptions unchecked =
          DumpDirectories.shellJob().criu(c -> c.cpuCheck(CpuCheck.NONE)).build();
      Workload.end(site.restore(workload.pid(), unchecked).process());
    }
  }

  /** Makes it the image of a CPU with larger registers. */
  private static void alter(Path file) throws IOException {
    byte[] image = Files.readAllBytes(file);
    UnknownFieldSet whole =
        UnknownFieldSet.parseFrom(ByteString.copyFrom(image, HEAD, image.length - HEAD));
    UnknownFieldSet cpu =
        UnknownFieldSet.parseFrom(whole.getField(X86_ENTRY).getLengthDelimitedList().get(0));
    UnknownFieldSet.Field one = UnknownFieldSet.Field.newBuilder().addVarint(1).build();
    ByteString other = cpu.toBuilder().addField(XSAVE_SIZE, one).build().toByteString();
    byte[] message =
        UnknownFieldSet.newBuilder()
            .addField(
                X86_ENTRY, UnknownFieldSet.Field.newBuilder().addLengthDelimited(other).build())
            .build()
            .toByteArray();
    ByteBuffer bytes = ByteBuffer.allocate(HEAD + message.length).order(ByteOrder.LITTLE_ENDIAN);
    bytes.put(image, 0, HEAD - 4).putInt(message.length).put(message);
    Files.write(file, bytes.array());
  }
}
