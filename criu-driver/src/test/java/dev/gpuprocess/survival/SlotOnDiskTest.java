package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.slot.GpuSlot;
import dev.gpuprocess.slot.SlotEvent;
import dev.gpuprocess.slot.SlotEvent.Kind;
import dev.gpuprocess.slot.SlotProcess;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Processes of a slot that go to disk because the budget of host memory is exceeded. */
@Tag("slow")
@RequiresCriu
@SimulatedGpu(mebibytes = 2048)
class SlotOnDiskTest {

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final int OUT_OF_MEMORY = 2;
  private static final Duration HOUR = Duration.ofHours(1);

  private final SimulatedDriver machine;
  private final GpuCheckpoints checkpoints;
  private final Counter one;
  private final Counter two;
  private final List<SlotEvent> events = new CopyOnWriteArrayList<>();

  @TempDir Path directory;

  SlotOnDiskTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter one, Counter two) {
    this.machine = machine;
    this.checkpoints = checkpoints;
    this.one = one;
    this.two = two;
  }

  private ImageStore store() {
    return checkpoints.store(directory.resolve("images"));
  }

  private GpuSlot open(long budget) {
    return GpuSlot.named("main", checkpoints)
        .quantum(HOUR)
        .hostMemory(budget, store().directory())
        .listener(events::add)
        .open();
  }

  private static SlotProcess find(GpuSlot slot, Counter counter) {
    return slot.processes().stream()
        .filter(each -> each.pid() == counter.pid())
        .findFirst()
        .orElseThrow();
  }

  /** The other process is more urgent, and host memory has room for neither. */
  private void sendOneToDisk(GpuSlot slot) {
    slot.acquire(one.pid());
    slot.acquire(two.pid(), 1);
    awaitPlace(slot, one, Place.DISK);
  }

  private void awaitPlace(GpuSlot slot, Counter counter, Place place) {
    assertTrue(
        Polling.until(PATIENCE, () -> find(slot, counter).place() == place),
        () -> slot.processes() + "\n" + events);
  }

  private static void assertGoesOn(Counter counter, int number) {
    assertEquals(number, counter.increment());
    assertTrue(counter.verify().startsWith("ok "), counter::verify);
  }

  @Test
  void processGoesToDiskAndComesBackForItsTurn() {
    assertEquals(101, one.increment());
    try (GpuSlot slot = open(1)) {
      sendOneToDisk(slot);
      assertFalse(one.isAlive());
      assertTrue(Files.isDirectory(Objects.requireNonNull(find(slot, one).image())));
      assertGoesOn(two, 101);

      slot.acquire(one.pid(), 2);
      assertGoesOn(one, 102);
      awaitPlace(slot, two, Place.DISK);
      assertTrue(
          Polling.until(PATIENCE, () -> store().list().size() == 1),
          () -> "an image is left: " + store().list());
      slot.release(one.pid());
      awaitPlace(slot, two, Place.GPU);
      assertGoesOn(two, 102);
    }
  }

  /** As when the disk is not mounted after a boot. */
  @Test
  void processWhoseImageIsNotThere_staysInTheQueue() throws IOException {
    try (GpuSlot slot = open(1)) {
      sendOneToDisk(slot);
    }
    Path images = store().directory();
    Path elsewhere = directory.resolve("elsewhere");
    Files.move(images, elsewhere);
    try (GpuSlot slot = open(Long.MAX_VALUE)) {
      slot.enqueue(one.pid(), 2);
      assertTrue(
          Polling.until(
              PATIENCE, () -> events.stream().anyMatch(each -> each.kind() == Kind.FAILED)));
      assertEquals(Place.DISK, find(slot, one).place());
      awaitPlace(slot, two, Place.GPU);
      assertGoesOn(two, 101);
    }
    Files.delete(images); // the store has made an empty one
    Files.move(elsewhere, images);
    try (GpuSlot slot = open(1)) {
      slot.acquire(one.pid(), 2);
      assertGoesOn(one, 101);
    }
  }

  @Test
  void processThatCannotBeDumpedStaysInHostMemory() throws IOException {
    try (GpuSlot slot = open(1)) {
      // No image can be made where a file is.
      Files.delete(store().directory());
      Files.createFile(store().directory());
      slot.acquire(one.pid());
      assertTrue(
          Polling.until(
              PATIENCE, () -> events.stream().anyMatch(each -> each.kind() == Kind.UNDUMPABLE)));
      slot.acquire(two.pid(), 1);
      assertTrue(
          Polling.until(
              PATIENCE, () -> events.stream().anyMatch(each -> each.kind() == Kind.FAILED)));
      assertEquals(Place.HOST_MEMORY, find(slot, one).place());
      slot.release(two.pid());
      awaitPlace(slot, one, Place.GPU);
      assertGoesOn(one, 101);
    }
  }

  /** Opens a slot in which one process is on disk, and is killed. */
  static final class Killed {
    private Killed() {}

    public static void main(String[] args) throws IOException {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder().cuda(Path.of(args[0])).stateDirectory(Path.of(args[1])).build();
      GpuSlot slot =
          GpuSlot.named("main", checkpoints)
              .quantum(HOUR)
              .hostMemory(1, Path.of(args[2]))
              .listener(System.out::println)
              .open();
      slot.acquire(Long.parseLong(args[3]));
      slot.acquire(Long.parseLong(args[4]), 1);
      int unused = System.in.read();
    }
  }

  @Test
  void nextControllerRestoresWhatAKilledOneLeftOnDisk() throws IOException {
    Process jvm =
        new ProcessBuilder(
                TestJvm.command(
                    Killed.class,
                    machine.directory().toString(),
                    machine.stateDirectory().toString(),
                    store().directory().toString(),
                    Long.toString(one.pid()),
                    Long.toString(two.pid())))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try (BufferedReader said = jvm.inputReader()) {
      String line = said.readLine();
      while (!Objects.requireNonNull(line, "the JVM has ended").contains(" DUMPED")) {
        line = said.readLine();
      }
    } finally {
      TestJvm.end(jvm);
    }
    assertFalse(one.isAlive());
    try (GpuSlot slot = open(1)) {
      assertEquals(2, slot.processes().size());
      assertEquals(Place.DISK, find(slot, one).place());
      // The killed controller may not have come to it.
      awaitPlace(slot, two, Place.GPU);
      slot.release(two.pid());
      awaitPlace(slot, one, Place.GPU);
      assertGoesOn(one, 101);
    }
  }

  /** CRIU, started by a controller that has died, may still end such a process. */
  @Test
  void imageOfAProcessThatDoesNotAnswer_stays() {
    Path image;
    try (GpuSlot slot = open(1)) {
      sendOneToDisk(slot);
      image = Objects.requireNonNull(find(slot, one).image());
    }
    CheckpointedProcess restored = checkpoints.open(image).restore();
    Signal.send("STOP", restored.pid());
    assertTrue(
        Polling.until(PATIENCE, () -> ProcFs.stat(restored.pid()).orElseThrow().isStopped()));
    GpuCheckpoints impatient =
        checkpoints.toBuilder()
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(10)).build())
            .build();
    try (GpuSlot slot =
        GpuSlot.named("main", impatient).quantum(HOUR).listener(events::add).open()) {
      assertFalse(Polling.until(Duration.ofSeconds(12), () -> !Files.isDirectory(image)));
      Signal.send("CONT", restored.pid());
      slot.release(two.pid());
      awaitPlace(slot, one, Place.GPU);
      assertGoesOn(one, 101);
    }
  }

  @Test
  void removedProcessIsLeftInItsImage() {
    Path image;
    try (GpuSlot slot = open(1)) {
      sendOneToDisk(slot);
      image = Objects.requireNonNull(slot.remove(one.pid()).image());
      slot.remove(two.pid());
    }
    assertEquals(one.pid(), checkpoints.open(image).resume().pid());
    assertGoesOn(one, 101);
  }

  /** The image is all that is left of it, since it has not run. */
  @Test
  void imageOfAProcessThatCannotComeToItsGpu_stays() {
    Path image;
    try (GpuSlot slot = open(1)) {
      sendOneToDisk(slot);
      image = Objects.requireNonNull(find(slot, one).image());
      machine.faults(Fault.in("cuCheckpointProcessRestore").pid(one.pid()).answers(OUT_OF_MEMORY));
      assertThrows(PoisonedProcessException.class, () -> slot.acquire(one.pid(), 2));
      machine.clearFaults();
      awaitPlace(slot, two, Place.GPU);
      assertGoesOn(two, 101);
      assertEquals(1, slot.processes().size());
    }
    try (GpuSlot slot = open(1)) {
      assertEquals(1, slot.processes().size());
    }
    one.kill();
    assertTrue(one.awaitExit(PATIENCE));
    assertEquals(one.pid(), checkpoints.open(image).resume().pid());
    assertGoesOn(one, 101);
  }
}
