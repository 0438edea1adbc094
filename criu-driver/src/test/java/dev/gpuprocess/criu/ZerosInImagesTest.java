package dev.gpuprocess.criu;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.SaveAreaMachine;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.DumpOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Images of processes whose GPU memory is mostly zero. */
@RequiresRoot("traces the process")
class ZerosInImagesTest {

  private static final long MIB = 1 << 20;
  private static final int FIRST = 41;
  private static final int ZEROS = 300;
  private static final int LAST = 33;
  private static final String WHOLE = "ok %s bytes".formatted((FIRST + LAST) * MIB);

  private static final long CONTENT = (FIRST + LAST) * MIB;

  /** What a context saves, the huge pages that are partly zero, and CRIU's files. */
  private static final long SLACK = 40 * MIB;

  @TempDir Path directory;
  private SaveAreaMachine machine;
  private Pattern job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    machine = SaveAreaMachine.in(directory, "size=900m", SimulatedDriver.builder());
    job = Pattern.launch(FIRST).on(machine.driver()).notOurChild().start();
    job.hold(ZEROS);
    job.allocate(LAST);
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

  private CheckpointedProcess suspended() {
    return machine.checkpoints().process(job.pid()).suspend();
  }

  private ProcessImage dumped(Path image) {
    return suspended().dump(image, DumpOptions.ofDefaults());
  }

  private void assertRight(String when) {
    assertEquals(WHOLE, job.verify(), when);
  }

  private void kill() {
    job.kill();
    assertTrue(job.awaitExit(Duration.ofSeconds(30)), "its pid is free");
  }

  private long taken() {
    return taken(machine.memory());
  }

  private static long taken(TmpFs in) {
    return in.takenBytes();
  }

  private static long allocated(Path directory) {
    String blocks = ProgramRun.of("du", "-s", "--block-size=1", directory.toString()).succeed();
    return Long.parseLong(blocks.replaceAll("\\D.*", "").strip());
  }

  private void assertIsContent(String when) {
    assertTrue(
        taken() >= CONTENT && taken() <= CONTENT + SLACK, taken() + " bytes are taken, " + when);
  }

  private GpuCheckpoints withoutHook() {
    return machine.checkpoints().toBuilder().driverHook(false).build();
  }

  private void assertRestores(Path image, GpuCheckpoints by) {
    by.open(image).restore().resume();
    assertRight("restored from " + image);
    job.touch(2);
    assertRight("after a write");
    kill();
  }

  @Test
  void anImageOnADisk_isRestoredAsOftenAsOneLikes() {
    Path image = directory.resolve("image");
    dumped(image).verify();
    await().atMost(60, SECONDS).until(() -> taken() == 0);
    CheckpointedProcess restored = machine.checkpoints().open(image).restore();
    assertIsContent("restored from a disk");
    restored.resume();
    assertRight("resumed");
    kill();
    assertRestores(image, withoutHook());
  }

  /** Its file is written, not linked. */
  @Test
  void anImageInOtherMemory_isItsContent() throws IOException {
    Path point = Files.createDirectory(directory.resolve("other"));
    try (TmpFs other = TmpFs.mount(point, "size=600m")) {
      Path image = other.point().resolve("image");
      dumped(image).verify();
      long kept = taken(other);
      assertTrue(kept >= CONTENT && kept <= CONTENT + SLACK, kept + " bytes are taken");
      Path copy = other.point().resolve("copy");
      Path onDisk = directory.resolve("copy");
      machine.checkpoints().open(image).copyTo(copy).copyTo(onDisk).verify();
      FileTree.remove(image);
      assertTrue(taken(other) <= kept + SLACK, taken(other) + " bytes are taken by the copy");
      assertTrue(allocated(onDisk) <= kept + SLACK, allocated(onDisk) + " bytes on the disk");
      machine.checkpoints().open(copy).restore().resume();
      assertRight("restored");
      assertTrue(taken(other) <= kept + SLACK, "a restore fills no hole");
      kill();
    }
  }

  @Test
  void anImageInTheSameMemory_isItsContent() {
    Path image = machine.memory().point().resolve("image");
    dumped(image).verify();
    assertIsContent("dumped");
    assertRestores(image, machine.checkpoints());
    assertRestores(image, withoutHook());
    machine.checkpoints().open(image).verify();
    assertIsContent("after two restores");
  }

  @Test
  void aRestoredProcess_isDumpedAgain() {
    Path first = directory.resolve("first");
    Path second = directory.resolve("second");
    dumped(first);
    machine.checkpoints().open(first).restore().dump(second, DumpOptions.ofDefaults()).verify();
    FileTree.remove(first);
    assertRestores(second, machine.checkpoints());
  }

  @Test
  void aSnapshotAndItsProcess_haveEveryByte() {
    Path image = directory.resolve("image");
    machine.checkpoints().process(job.pid()).snapshot(image, DumpOptions.ofDefaults());
    assertRight("the process goes on");
    kill();
    assertRestores(image, withoutHook());
  }

  @Test
  void whatCriuDumpsItself_isRight() {
    Path image = directory.resolve("image");
    suspended().dump(image, DumpOptions.builder().memoryFiles(false).build());
    assertRestores(image, withoutHook());
  }
}
