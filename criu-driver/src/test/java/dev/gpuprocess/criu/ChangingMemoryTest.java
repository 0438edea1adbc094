package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.SaveAreaMachine;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** A process that changes its own memory while it is suspended keeps it as it made it. */
@RequiresRoot("traces the process")
class ChangingMemoryTest {

  private static final int MEBIBYTES = 16;
  private static final String PATTERN = "ok " + ((long) MEBIBYTES << 20) + " bytes";
  private static final String UNCHANGED = "ok 0";

  /** The memory of the process in a file of another process. */
  private static final int OTHER_BYTES = 1 << 20;

  /** Children inherit the device files of a CUDA process. */
  private static final DumpOptions OPTIONS =
      DumpOptions.builder().releaseInheritedGpu(true).build();

  @TempDir Path directory;
  private SaveAreaMachine machine;
  private Counter job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    machine =
        SaveAreaMachine.in(
            directory,
            "size=800m",
            SimulatedDriver.builder().memory(2L << 30).contextMemory(256L << 20));
    job = Counter.launch(MEBIBYTES).on(machine.driver()).notOurChild().start();
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

  private enum Verb {
    SNAPSHOT,
    DUMP_AND_CONTINUE,
    DUMP
  }

  private Path image() {
    return directory.resolve("image");
  }

  /** Runs a verb, and sends a request to the process at the beginning of its steps. */
  private ProcessImage image(Verb verb, Map<String, List<String>> questions) {
    GpuCheckpoints asking =
        machine.checkpoints().toBuilder()
            .listener(
                new StepListener() {
                  @Override
                  public void started(String step, int pid) {
                    questions.getOrDefault(step, List.of()).forEach(job::ask);
                  }
                })
            .build();
    ProcessImage image;
    switch (verb) {
      case SNAPSHOT -> image = asking.process(job.pid()).snapshot(image(), OPTIONS);
      case DUMP_AND_CONTINUE -> {
        var suspended = asking.process(job.pid()).suspend();
        image = suspended.dump(image(), OPTIONS.toBuilder().leaveRunning(true).build());
        suspended.resume();
      }
      default -> {
        image = asking.process(job.pid()).suspend().dump(image(), OPTIONS);
        image.restore().resume();
      }
    }
    return image;
  }

  private static void assertIsInFiles(ProcessImage image) {
    assertEquals(1, image.manifest().memoryFiles().size(), image.steps()::toString);
    assertTrue(image.steps().stream().anyMatch(step -> step.name().equals("write")));
  }

  private void assertIsWhole() {
    assertEquals(PATTERN, job.verify());
    assertEquals(UNCHANGED, job.churned());
    for (int pid : ProcFs.tree(Math.toIntExact(job.pid()))) {
      assertEquals(List.of(), SaveFileMappings.candidates(pid), "what process " + pid + " maps");
    }
  }

  private void kill() {
    job.kill();
    assertTrue(job.awaitExit(Duration.ofSeconds(30)), "its pid is free");
  }

  /** Verbs and steps; a process that forks later has no child when CRIU gets the tree. */
  private static Stream<Arguments> verbsAndSteps() {
    return Arrays.stream(Verb.values())
        .flatMap(
            verb -> Stream.of("checkpoint", "write", "dump").map(step -> Arguments.of(verb, step)));
  }

  /** The child has no memory of the driver's save area, which its parent unmaps later. */
  @ParameterizedTest
  @MethodSource("verbsAndSteps")
  void aChildThatIsForkedMeanwhileHasNothingOfTheFiles(Verb verb, String step) {
    ProcessImage image = image(verb, Map.of(step, List.of("area private 4", "area worker")));
    assertIsInFiles(image);
    assertIsWhole();

    ProcessImage next =
        machine.checkpoints().process(job.pid()).snapshot(directory.resolve("next"), OPTIONS);

    assertIsInFiles(next);
    assertIsWhole();
  }

  @ParameterizedTest
  @EnumSource
  void whatTheProcessAllocatesStaysItsOwn(Verb verb) {
    ProcessImage image = image(verb, Map.of("checkpoint", List.of("area private 28")));
    assertIsInFiles(image);
    assertIsWhole();
    kill();
    image.restore().resume();
    assertIsWhole();
  }

  @Test
  void sharedMemoryStaysShared() {
    ProcessImage image =
        image(
            Verb.SNAPSHOT,
            Map.of("checkpoint", List.of("area private 8"), "write", List.of("area shared")));
    assertIsInFiles(image);
    assertIsWhole();
  }

  /** A file in the place where those of the library are, which looks like one of them. */
  private NamelessFile other() throws IOException {
    NamelessFile file = NamelessFile.create(machine.memory().point(), OTHER_BYTES);
    try (FileChannel channel = channel(file)) {
      assertEquals(OTHER_BYTES, channel.write(ByteBuffer.allocate(OTHER_BYTES)));
    }
    return file;
  }

  private static FileChannel channel(NamelessFile file) throws IOException {
    return FileChannel.open(
        Path.of("/proc/self/fd/" + file.descriptor()),
        StandardOpenOption.READ,
        StandardOpenOption.WRITE);
  }

  private static void write(NamelessFile file, long value) throws IOException {
    try (FileChannel channel = channel(file)) {
      ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES).order(java.nio.ByteOrder.nativeOrder());
      channel.write(bytes.putLong(value).flip(), 0);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Verb.class,
      names = {"SNAPSHOT", "DUMP_AND_CONTINUE"})
  void aFileThatTheProgramSharesWithAnotherProcessStaysShared(Verb verb) throws Exception {
    try (NamelessFile file = other()) {
      long address =
          RemoteMappings.map(job.pid(), file.descriptor(), OTHER_BYTES, RemoteMappings.SHARED);
      ProcessImage image = image(verb, Map.of());
      assertIsInFiles(image);
      assertEquals(PATTERN, job.verify());
      ProcessMemory there = new ProcessMemory((int) job.pid());
      write(file, 42);
      assertEquals(42, there.readLong(address), "what another process writes is seen");
      Mapping mapping = mappingAt(address);
      assertEquals("rw-s", mapping.permissions());
      assertEquals(machine.memory().point(), Path.of(mapping.name()).getParent(), "its name");
    }
  }

  private Mapping mappingAt(long address) {
    return ProcFs.memory(job.pid()).stream()
        .filter(each -> each.start() == address)
        .findFirst()
        .orElseThrow();
  }

  /** A program may map less of a file than it has open. */
  @ParameterizedTest
  @EnumSource(
      value = Verb.class,
      names = {"SNAPSHOT", "DUMP_AND_CONTINUE"})
  void aFileOfTheProgramThatItMapsPrivatelyIsLeftAsItIs(Verb verb) throws Exception {
    try (NamelessFile file = other()) {
      long address =
          RemoteMappings.map(job.pid(), file.descriptor(), OTHER_BYTES / 2, RemoteMappings.PRIVATE);
      ProcessImage image = image(verb, Map.of());
      assertEquals(PATTERN, job.verify());
      try (FileChannel channel = channel(file)) {
        assertEquals(OTHER_BYTES, channel.size(), "the rest of its file");
      }
      assertFalse(mappingAt(address).name().contains("gpuprocess"), mappingAt(address).name());
      assertIsInFiles(image);
    }
  }
}
