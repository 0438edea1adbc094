package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.MemoryGroup;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.proc.ProcLimit;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Step;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Memory limits of the process and of the controller are respected before either is killed. */
@RequiresRoot("makes control groups")
@SimulatedGpu
@Tag("slow")
record HostMemoryLimitTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  private static final int MIB = 160;
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);
  private static final long HUGE = 1L << 50;
  private static final Path TMPFS = Path.of("/dev/shm");

  @Test
  void limitOfTheProcess_isRespectedWhereItsOwnMemoryIsNeeded() throws IOException {
    GpuCheckpoints none = checkpoints.toBuilder().hostMemory(HostMemory.none()).build();
    GpuCheckpoints alone = checkpoints.toBuilder().driverHook(false).build();
    try (MemoryGroup group = MemoryGroup.create();
        Pattern pattern = machine.start(Pattern.launch(MIB).notOurChild())) {
      group.add(pattern.pid());
      group.limit(40L << 20);
      for (GpuCheckpoints each : List.of(none, alone)) {
        assertRefused(each, pattern, group.directory().toString());
      }
      LockedProcess locked = none.process(pattern.pid()).lock(Duration.ofMinutes(3));
      assertReason(
          FixAndRetryException.class, FixAndRetryException.Reason.HOST_MEMORY, locked::checkpoint);
      ((LockedProcess) none.inspect(pattern.pid())).unlock();
      assertDoctorWarns(none, pattern);
      // Memory of the pool is charged to this JVM.
      GpuCheckpoints pool = checkpoints.toBuilder().hostMemory(HostMemory.in(TMPFS)).build();
      CheckpointedProcess suspended = pool.process(pattern.pid()).suspend();
      group.limit(700L << 20); // the memory of a simulated GPU is charged as well
      suspended.resume();
      none.process(pattern.pid()).suspend().resume();
      assertEquals(WHOLE, pattern.verify());
    }
  }

  /** Otherwise the checkpoint fails, and the process can never use its GPU again. */
  @ParameterizedTest
  @ValueSource(strings = {"as", "data"})
  void limitOfWhatTheProcessMaps_isRespected(String limit) {
    GpuCheckpoints none = checkpoints.toBuilder().hostMemory(HostMemory.none()).build();
    GpuCheckpoints alone = checkpoints.toBuilder().driverHook(false).build();
    GpuCheckpoints pool = checkpoints.toBuilder().hostMemory(HostMemory.in(TMPFS)).build();
    try (Pattern pattern = machine.start(Pattern.launch(MIB).notOurChild())) {
      ProcLimit mapped = limit.equals("as") ? ProcLimit.ADDRESS_SPACE : ProcLimit.DATA;
      assertEquals(OptionalLong.empty(), mapped.room(pattern.pid()));
      limit(pattern.pid(), limit, Long.toString(HUGE));
      long used = HUGE - mapped.room(pattern.pid()).orElseThrow();
      limit(pattern.pid(), limit, Long.toString(used + (40L << 20)));
      for (GpuCheckpoints each : List.of(none, alone)) {
        assertRefused(each, pattern, "(prlimit --pid " + pattern.pid());
      }
      assertDoctorWarns(none, pattern);
      if (mapped == ProcLimit.ADDRESS_SPACE) {
        assertRefused(pool, pattern, "(prlimit --pid " + pattern.pid());
      }
      limit(pattern.pid(), limit, "unlimited");
      none.process(pattern.pid()).suspend().resume();
      assertEquals(WHOLE, pattern.verify());
    }
  }

  private static void limit(long pid, String name, String bytes) {
    ProgramRun.of("prlimit", "--pid", Long.toString(pid), "--" + name + "=" + bytes + ":")
        .succeed();
  }

  private static void assertRefused(GpuCheckpoints controller, Pattern pattern, String cause) {
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.HOST_MEMORY,
            () -> controller.process(pattern.pid()).suspend());
    assertTrue(e.getMessage().contains(cause), e.getMessage());
    assertEquals(ProcessState.RUNNING, controller.inspect(pattern.pid()).state());
  }

  private static void assertDoctorWarns(GpuCheckpoints controller, Pattern pattern) {
    assertTrue(
        controller.doctor(pattern.pid()).findings().stream()
            .filter(finding -> finding.severity() == Finding.Severity.PROBLEM)
            .map(Finding::subject)
            .toList()
            .contains("memory limit"));
  }

  @Test
  void limitOfTheController_isRespectedByThePool() throws IOException, InterruptedException {
    try (MemoryGroup group = MemoryGroup.create();
        Pattern pattern = machine.start(Pattern.launch(MIB).notOurChild())) {
      group.limit(300L << 20);
      TestJvm.assertEndsSaying(
          "warned, suspended, as none could be made: the control group of this JVM",
          TestJvm.commandBy(
              List.of(
                  "sh",
                  "-c",
                  "echo $$ >%s/cgroup.procs; exec \"$@\"".formatted(group.directory()),
                  "sh"),
              HostMemoryLimitTest.class,
              machine.directory().toString(),
              checkpoints.stateDirectory().toString(),
              Long.toString(pattern.pid())));
      checkpoints.resume(pattern.pid());
      assertEquals(WHOLE, pattern.verify());
    }
  }

  /** Suspends a process in a JVM of its own. */
  public static void main(String[] args) {
    GpuCheckpoints here =
        GpuCheckpoints.builder()
            .cuda(Path.of(args[0]))
            .stateDirectory(Path.of(args[1]))
            .hostMemory(HostMemory.in(TMPFS))
            .build();
    String limit =
        here.doctor().findings().stream()
            .filter(finding -> finding.subject().equals("memory limit"))
            .map(finding -> "warned, ")
            .collect(Collectors.joining());
    CheckpointedProcess suspended = here.process(Integer.parseInt(args[2])).suspend();
    String notes = suspended.steps().stream().map(Step::note).collect(Collectors.joining());
    System.out.println(
        limit + "suspended" + notes.replaceAll("(?s).*(, as none .* JVM) has.*", "$1"));
  }
}
