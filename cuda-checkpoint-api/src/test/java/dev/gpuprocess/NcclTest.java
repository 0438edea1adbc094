package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Launch;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ranks that use NCCL are recognised, and the settings that they lack are named. */
@SimulatedGpu(mebibytes = 1024)
class NcclTest {

  private static final Map<String, String> ALL =
      Map.of(
          "NCCL_P2P_DISABLE", "1",
          "NCCL_NVLS_ENABLE", "0",
          "NCCL_SHM_DISABLE", "1",
          "USE_LIBUV", "0");

  @TempDir Path directory;
  private final SimulatedDriver machine;
  private final GpuCheckpoints checkpoints;
  private Path library;

  NcclTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {
    this.machine = machine;
    this.checkpoints = checkpoints.toBuilder().criu(mock(CriuDriver.class)).build();
  }

  @BeforeEach
  void writeLibrary() throws IOException {
    library = Files.writeString(directory.resolve("libnccl.so.2"), "not really");
  }

  private Counter rank(Map<String, String> environment) {
    Launch<Counter> launch = Counter.launch();
    environment.forEach(launch::environment);
    Counter rank = machine.start(launch);
    rank.ask("map " + library);
    return rank;
  }

  private List<Finding> told(Workload process) {
    return checkpoints.doctor(process.pid()).findings().stream()
        .filter(finding -> finding.subject().equals("NCCL"))
        .toList();
  }

  private void assertMissing(Counter rank, String settings) {
    List<Finding> told = told(rank);
    assertEquals(1, told.size(), told::toString);
    assertEquals(Severity.WARNING, told.get(0).severity());
    assertEquals("start the process with " + settings, told.get(0).cure());
  }

  @Test
  void theSettingsThatOneOfTheRanksLacksAreNamed() {
    String all = "NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_SHM_DISABLE=1 USE_LIBUV=0";
    try (Counter first = rank(Map.of())) {
      assertEquals(List.of(), told(first), "a single rank shares no memory");
      try (Counter second = rank(ALL)) {
        assertMissing(first, all);
        assertMissing(second, all);
      }
    }
  }

  @Test
  void noOtherSettingsAreNamed() {
    Map<String, String> some =
        Map.of("NCCL_P2P_DISABLE", "1", "NCCL_SHM_DISABLE", "0", "USE_LIBUV", "0");
    try (Counter first = rank(some);
        Counter second = rank(ALL)) {
      assertTrue(second.isAlive());
      assertMissing(first, "NCCL_NVLS_ENABLE=0 NCCL_SHM_DISABLE=1");
    }
  }

  @Test
  void ranksWithAllSettingsAreFine() {
    try (Counter first = rank(ALL);
        Counter second = rank(ALL)) {
      assertTrue(second.isAlive());
      List<Finding> told = told(first);
      assertEquals(List.of(Severity.OK), told.stream().map(Finding::severity).toList());
    }
  }

  @Test
  void neitherCudaWithoutNcclIsARankNorNcclWithoutCuda() {
    try (Counter rank = rank(Map.of());
        Counter other = Counter.start(machine);
        Workload idle = Workload.idle()) {
      idle.ask("map " + library);
      assertEquals(List.of(), told(rank));
      assertEquals(List.of(), told(other));
    }
  }

  @Test
  void aLockThatTimesOutNamesTheSettingsInSuchAJobOnly() {
    try (Counter first = rank(Map.of("USE_LIBUV", "0"))) {
      assertFalse(lockTimedOut(first).contains("NCCL"));
      try (Counter second = rank(ALL)) {
        String told = lockTimedOut(first);
        assertTrue(
            told.contains(
                "start the process with NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_SHM_DISABLE=1"),
            told);
        assertTrue(told.contains(Long.toString(second.pid())), told);
      }
    }
  }

  @Test
  void ranksThatMayMapEachOthersMemoryAreNotTouched() {
    try (Counter first = talking(Map.of(), 0);
        Counter second = talking(ALL, 1)) {
      ProcessUnfitException refused = assertRefused(first);
      assertTrue(
          refused.getMessage().contains("start the process with NCCL_P2P_DISABLE=1"),
          refused::getMessage);
      assertTrue(refused.getMessage().contains(Long.toString(second.pid())), refused::getMessage);
      assertRefused(second);
      LockedProcess locked = checkpoints.process(first.pid()).lock();
      assertReason(
          ProcessUnfitException.class,
          ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
          locked::checkpoint);
      locked.unlock();
      try (CheckpointedProcess suspended =
          checkpoints.toBuilder().allowPeerMemory(true).build().process(first.pid()).suspend()) {
        assertEquals(first.pid(), suspended.pid());
      }
      assertEquals(101, first.increment());
    }
  }

  private ProcessUnfitException assertRefused(Counter rank) {
    RunningProcess process = checkpoints.process(rank.pid());
    ProcessUnfitException refused =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
            process::suspend);
    RunningProcess job = checkpoints.process(rank.pid());
    assertReason(
        ProcessUnfitException.class,
        ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
        job::suspend);
    assertEquals(ProcessState.RUNNING, checkpoints.inspect(rank.pid()).state());
    return refused;
  }

  @Test
  void ranksThatDoWithoutSuchMemoryAreSuspended() {
    try (Counter first = talking(ALL, 0);
        Counter second = talking(ALL, 1)) {
      checkpoints.process(first.pid()).suspend().resume();
      assertEquals(101, first.increment());
      assertEquals(101, second.increment());
    }
  }

  @Test
  void oneRankAndRanksOfOtherJobsAreSuspended() {
    try (Counter alone = talking(Map.of("WORLD_SIZE", "1", "MASTER_PORT", "4001"), 0);
        Counter other = talking(Map.of("WORLD_SIZE", "2", "MASTER_PORT", "4002"), 0);
        Counter silent = rank(Map.of())) {
      checkpoints.process(alone.pid()).suspend().resume();
      checkpoints.process(other.pid()).suspend().resume();
      checkpoints.process(silent.pid()).suspend().resume();
      assertEquals(101, other.increment());
    }
  }

  /** Such as a PyTorch process that trains on two GPUs and has forked data loaders. */
  @Test
  void aForkedChildIsNoRank() {
    try (Counter alone = talking(Map.of(), 0)) {
      alone.ask("unix-bind @tmp/nccl-socket-1-%x".formatted(alone.pid()));
      assertTrue(alone.fork() > 0);
      checkpoints.process(alone.pid()).suspend().resume();
      assertEquals(101, alone.increment());
    }
  }

  /** A rank with a communicator. */
  private Counter talking(Map<String, String> environment, int number) {
    Counter rank = rank(environment);
    String answer = rank.ask("unix-bind @tmp/nccl-socket-%d-%x".formatted(number, rank.pid()));
    assertFalse(answer.startsWith("error"), answer);
    return rank;
  }

  private String lockTimedOut(Counter busy) {
    busy.spin(Duration.ofSeconds(60));
    RunningProcess process = checkpoints.process(busy.pid());
    return assertThrows(LockTimeoutException.class, () -> process.lock(Duration.ofMillis(20)))
        .getMessage();
  }
}
