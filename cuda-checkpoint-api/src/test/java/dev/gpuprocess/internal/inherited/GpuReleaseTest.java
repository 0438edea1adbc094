package dev.gpuprocess.internal.inherited;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Forked children release the device files that they inherited, and keep those of their own. */
@RequiresRoot("traces processes")
class GpuReleaseTest {

  private static final Duration LIMIT = Duration.ofSeconds(30);

  @TempDir Path directory;
  private SimulatedDriver machine;
  private Counter counter;
  private Inheritance inheritance;

  @BeforeEach
  void start() {
    machine = SimulatedDriver.builder().gpus(2).memory(1L << 30).create();
    counter = Counter.start(machine);
    inheritance = new Inheritance(identity(counter.pid()));
  }

  @AfterEach
  void end() {
    if (counter != null) {
      counter.close();
    }
    machine.close();
  }

  private static ProcessIdentity identity(long pid) {
    return ProcessIdentity.of(pid).orElseThrow();
  }

  private static GpuHandles held(ProcessIdentity process) {
    return GpuHandles.of(process.pid(), () -> {});
  }

  /** NVML of the simulated driver opens a directory of its own for a moment, again and again. */
  private static GpuHandles kept(ProcessIdentity process) {
    GpuHandles held = held(process);
    return new GpuHandles(
        held.descriptors().stream()
            .filter(file -> !file.target().endsWith("/nvidia-usage"))
            .toList(),
        held.mappings());
  }

  private static Map<Integer, String> files(ProcessIdentity process) {
    return ProcFs.openFiles(process.pid()).stream()
        .collect(Collectors.toMap(OpenFile::number, OpenFile::target));
  }

  private static String flags(ProcessIdentity process, OpenFile file) {
    return ProcFs.read(process.pid(), "fdinfo/" + file.number()).orElseThrow();
  }

  private GpuCheckpoints checkpoints() {
    return GpuCheckpoints.builder()
        .cuda(machine.directory())
        .stateDirectory(directory.resolve("state"))
        .build();
  }

  private String refused(ProcessIdentity child) {
    GpuHandles before = kept(child);
    NotReleasableException e =
        assertThrows(NotReleasableException.class, () -> GpuRelease.of(child, inheritance, LIMIT));
    assertEquals(before, kept(child), "its device files are unchanged");
    assertTrue(child.isAlive());
    return e.getMessage();
  }

  @ParameterizedTest
  @CsvSource({"plain", "user"})
  void numbersAndAddressesStayTaken(String kind) throws IOException {
    ProcessIdentity child = identity(counter.fork(kind));
    GpuHandles before = held(child);
    Map<Integer, String> files = files(child);
    assertEquals(3, before.descriptors().size(), before::toString);

    Released released = GpuRelease.of(child, inheritance, LIMIT);

    assertEquals(new Released(1, 3, before.mappings().size()), released);
    assertEquals(new GpuHandles(List.of(), List.of()), held(child));
    for (OpenFile file : before.descriptors()) {
      files.put(file.number(), "/dev/null");
      assertTrue(flags(child, file).matches("(?s).*flags:\\s+02100002\n.*"), flags(child, file));
    }
    assertEquals(files, files(child));
    for (Mapping mapping : before.mappings()) {
      assertTrue(isInaccessible(child, mapping), mapping::toString);
    }
    assertEquals(Released.NOTHING, GpuRelease.of(child, inheritance, LIMIT), "the second time");
    assertFalse(held(identity(counter.pid())).isEmpty(), "its parent keeps them");
    assertEquals(101, counter.increment());
  }

  /** The kernel merges the mapping with its neighbors. */
  private static boolean isInaccessible(ProcessIdentity child, Mapping place) {
    return ProcFs.memory(child.pid()).stream()
        .anyMatch(
            found ->
                found.start() <= place.start()
                    && found.end() >= place.end()
                    && found.isUnnamedMemory()
                    && found.permissions().equals("---p"));
  }

  @ParameterizedTest
  @CsvSource({
    "seccomp, seccomp forbids dup3",
    "vfork,   shares its memory or its descriptors with process",
    "files,   shares its memory or its descriptors with process",
    "nvml,    may have opened",
  })
  void itIsLeftAlone(String kind, String why) {
    ProcessIdentity child = identity(counter.fork(kind));

    String told = refused(child);

    assertTrue(told.contains(why), told);
    assertEquals(101, counter.increment(), "its parent uses its GPU");
  }

  @Test
  void aStoppedChildIsLeftAlone() throws Exception {
    ProcessIdentity child = identity(counter.fork("plain"));
    signal("STOP", child);
    Workload.await(() -> ProcFs.stat(child.pid()).orElseThrow().isStopped(), "a stop");

    String told = refused(child);

    assertTrue(told.contains("kill -CONT " + child.pid()), told);
    assertTrue(ProcFs.stat(child.pid()).orElseThrow().isStopped(), "it is stopped still");
  }

  private static void signal(String signal, ProcessIdentity child) {
    assertTrue(child.isAlive());
    Signal.send(signal, child.pid());
  }

  @Test
  void aChildThatHasEndedHasNothing() throws Exception {
    ProcessIdentity child = identity(counter.fork("plain"));
    signal("KILL", child);
    Workload.await(() -> !child.isAlive(), "its end");

    assertThrows(NotReleasableException.class, () -> GpuRelease.of(child, inheritance, LIMIT));
    assertTrue(held(child).isEmpty());
  }

  /** With NVML loaded, a device file is inherited if another process of the tree has it too. */
  @Test
  void nvmlThatTheParentLoadedIsNoHindranceWhileTheParentIsOnItsGpu() throws IOException {
    counter.pollNvml();
    ProcessIdentity child = identity(counter.fork("plain"));
    assertEquals(4, held(child).descriptors().size());

    assertEquals(4, GpuRelease.of(child, inheritance, LIMIT).descriptors());

    assertEquals(101, counter.increment());
  }

  @Test
  void nvmlThatTheParentLoadedIsNoHindranceWhereThereIsASibling() throws IOException {
    counter.pollNvml();
    ProcessIdentity child = identity(counter.fork("plain"));
    try (var suspended = checkpoints().process(counter.pid()).suspend()) {
      assertEquals(counter.pid(), suspended.pid());
      String told = refused(child);
      assertTrue(told.contains("no other process has its descriptor"), told);
    }
    ProcessIdentity sibling = identity(counter.fork("plain"));
    ProcessIdentity twin = identity(counter.fork("plain"));
    try (var suspended = checkpoints().process(counter.pid()).suspend()) {
      assertEquals(counter.pid(), suspended.pid());
      inheritance.require(sibling, held(sibling));
      inheritance.require(twin, held(twin));
      assertEquals(4, GpuRelease.of(sibling, inheritance, LIMIT).descriptors());
      assertEquals(
          4, GpuRelease.of(twin, inheritance, LIMIT).descriptors(), "the last that has them");
    }
    assertEquals(101, counter.increment());
  }

  @Test
  void anotherProgramInheritsNothing() {
    try (Counter other = Counter.launch().on(machine).notOurChild().start()) {
      ProcessIdentity stranger = identity(other.pid());

      String told =
          assertThrows(
                  NotReleasableException.class,
                  () -> inheritance.require(stranger, new GpuHandles(List.of(), List.of())))
              .getMessage();

      assertTrue(told.contains("executed another program"), told);
      assertEquals(101, other.increment());
    }
  }

  @Test
  void aChildForkedBeforeCuInitMayUseCudaItself() {
    try (Counter kept = Counter.launch().on(machine).notOurChild().start()) {
      ProcessIdentity process = identity(kept.pid());
      int keeper = ProcFs.stat(kept.pid()).map(ProcStat::parent).orElseThrow();

      NotReleasableException e =
          assertThrows(
              NotReleasableException.class,
              () -> new Inheritance(process).require(identity(keeper), held(identity(keeper))));

      assertTrue(e.getMessage().contains("was forked before"), e.getMessage());
    }
  }

  @Test
  void aFileThatOnlyHasSuchANameStaysOpen() throws IOException {
    Path file = Files.createDirectory(directory.resolve("dev")).resolve("nvidia-notes");
    Files.writeString(file, "precious");
    counter.ask("open " + file);
    ProcessIdentity child = identity(counter.fork("plain"));

    String told = refused(child);

    assertTrue(told.contains(file + " is not a device file"), told);
  }
}
