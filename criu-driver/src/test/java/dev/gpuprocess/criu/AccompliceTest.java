package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.SaveAreaMachine;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A process outside of the tree that has a writable descriptor of the file with the GPU memory, and
 * writes to it when the image is sealed or verified.
 */
@RequiresRoot("traces the process")
class AccompliceTest {

  private static final int MEBIBYTES = 80;
  private static final String MEMORY = "gpu/memory-1.bin";

  /** The memory of a context; the driver hook is not used for less GPU memory. */
  private static final long CONTEXT_BYTES = 256L << 20;

  @TempDir Path directory;
  private SaveAreaMachine machine;
  private Pattern job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    machine =
        SaveAreaMachine.in(
            directory,
            "size=1400m",
            SimulatedDriver.builder().memory(2L << 30).contextMemory(CONTEXT_BYTES));
    job = Pattern.launch(MEBIBYTES).on(machine.driver()).notOurChild().start();
  }

  @AfterEach
  void end() {
    if (job != null) {
      job.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  private Path image() {
    return machine.memory().point().resolve("image");
  }

  private void assertRight() {
    assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify());
  }

  /** A shell that has a file open for reading and writing, and writes on request. */
  private record Accomplice(Process process, BufferedReader out, BufferedWriter in)
      implements AutoCloseable {

    private static final String SCRIPT =
        "exec 3<>\"$1\" || exit 1; echo open; read go; printf FORGED >&3; echo written; read end";

    static Accomplice of(Path file) throws IOException {
      Process shell = new ProcessBuilder("sh", "-c", SCRIPT, "sh", file.toString()).start();
      Accomplice accomplice = new Accomplice(shell, shell.inputReader(), shell.outputWriter());
      assertEquals("open", accomplice.out.readLine());
      return accomplice;
    }

    void write() throws IOException {
      in.write("\n");
      in.flush();
      assertEquals("written", out.readLine());
    }

    @Override
    public void close() {
      process.destroyForcibly();
    }
  }

  @Test
  void aSealedImage_isNotTheFileThatItCanWrite() throws IOException {
    CheckpointedProcess checkpointed = machine.checkpoints().process(job.pid()).suspend();
    Mapping area = SaveFileMappings.candidates((int) job.pid()).get(0);
    Path mapped = Path.of("/proc", Long.toString(job.pid()), "map_files", area.range());
    try (Accomplice accomplice = Accomplice.of(mapped)) {
      ProcessImage image = checkpointed.dump(image(), DumpOptions.ofDefaults());
      assertEquals(1, image.manifest().memoryFiles().size());
      assertNotEquals(area.inode(), Files.getAttribute(image().resolve(MEMORY), "unix:ino"));
      accomplice.write();
      image.verify();
      image.restore().resume();
    }
    assertRight();
  }

  @Test
  void aVerifiedImage_isNotMappedWhileItCanWriteIt() throws IOException {
    machine.checkpoints().process(job.pid()).suspend().dump(image(), DumpOptions.ofDefaults());
    try (Accomplice accomplice = Accomplice.of(image().resolve(MEMORY))) {
      CheckpointedProcess restored = machine.checkpoints().open(image()).restore();
      accomplice.write();
      restored.resume();
    }
    assertRight();
  }

  /** Nothing is restored of what was verified and may be altered after that. */
  @Test
  void withoutMemoryForACopy_theRestoreIsRefused() throws IOException {
    machine.checkpoints().process(job.pid()).suspend().dump(image(), DumpOptions.ofDefaults());
    GpuCheckpoints without =
        machine.checkpoints().toBuilder().hostMemory(HostMemory.none()).build();
    try (Accomplice unused = Accomplice.of(image().resolve(MEMORY))) {
      ImageException e = assertThrows(ImageException.class, () -> without.open(image()).restore());
      assertTrue(e.getMessage().contains("can still write to its GPU memory"), e.getMessage());
    }
    without.open(image()).restore().resume();
    assertRight();
  }
}
