package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.ResumeOptions;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Resumes on two GPUs, each with room for one process. */
class GpuMapTest {

  @TempDir Path state;

  private RoomOnGpu room;
  private GpuCheckpoints checkpoints;
  private GpuUuid first;
  private GpuUuid second;

  @BeforeEach
  void start() {
    room = new RoomOnGpu(RoomOnGpu.builder().gpus(2));
    checkpoints = room.checkpoints(state);
    List<GpuUuid> gpus = checkpoints.gpus().gpus().orElseThrow().stream().map(Gpu::uuid).toList();
    first = gpus.get(0);
    second = gpus.get(1);
  }

  @AfterEach
  void end() {
    room.close();
  }

  private CheckpointedProcess suspend(Pattern pattern) {
    return checkpoints.process(pattern.pid()).suspend();
  }

  private static ResumeOptions on(GpuMap map) {
    return ResumeOptions.builder().gpus(map).build();
  }

  private GpuUuid gpuOf(Pattern pattern) {
    return checkpoints.gpus().gpus().orElseThrow().stream()
        .filter(gpu -> gpu.users().stream().anyMatch(user -> user.pid() == pattern.pid()))
        .map(Gpu::uuid)
        .findFirst()
        .orElseThrow();
  }

  private void assertWholeOn(GpuUuid gpu, Pattern pattern) {
    assertEquals(gpu, gpuOf(pattern));
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  @Test
  void automatic_itsGpuIsTaken_goesToTheOther() {
    try (Pattern pattern = room.pattern()) {
      assertEquals(first, gpuOf(pattern));
      CheckpointedProcess suspended = suspend(pattern);
      try (Pattern urgent = room.pattern()) {
        assertThrows(InsufficientGpuMemoryException.class, suspended::resume);
        suspended.resume(on(GpuMap.automatic()));
        assertWholeOn(second, pattern);
        assertWholeOn(first, urgent);
      }
    }
  }

  @Test
  void automatic_itsGpuIsFree_staysThere() {
    try (Pattern pattern = room.pattern()) {
      suspend(pattern).resume(on(GpuMap.automatic()));
      assertWholeOn(first, pattern);
    }
  }

  @Test
  void automatic_twoAtOnce_getAGpuEach() {
    try (Pattern one = room.pattern()) {
      CheckpointedProcess suspended = suspend(one);
      try (Pattern other = room.pattern()) {
        CheckpointedProcess alike = suspend(other);
        CompletableFuture<RunningProcess> running =
            CompletableFuture.supplyAsync(() -> suspended.resume(on(GpuMap.automatic())));
        alike.resume(on(GpuMap.automatic()));
        running.join();
        assertEquals(Set.of(first, second), Set.of(gpuOf(one), gpuOf(other)));
        assertEquals(RoomOnGpu.whole(), one.verify());
        assertEquals(RoomOnGpu.whole(), other.verify());
      }
    }
  }

  @Test
  void automatic_noGpuHasRoom_isRefusedAndNothingIsLost() {
    try (Pattern pattern = room.pattern()) {
      CheckpointedProcess suspended = suspend(pattern);
      try (Pattern one = room.pattern()) {
        suspend(one).resume(on(GpuMap.to(second)));
        try (Pattern other = room.pattern()) {
          assertNotEquals(gpuOf(one), gpuOf(other));
          InsufficientGpuMemoryException refused =
              assertThrows(
                  InsufficientGpuMemoryException.class,
                  () -> suspended.resume(on(GpuMap.automatic())));
          assertEquals(first, refused.shortage().orElseThrow().gpu());
        }
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      suspended.resume(on(GpuMap.automatic()));
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void thereAndBack() {
    try (Pattern pattern = room.pattern()) {
      suspend(pattern).resume(on(GpuMap.to(second)));
      assertWholeOn(second, pattern);
      suspend(pattern).restore(GpuMap.swap(first, second)).unlock();
      assertWholeOn(first, pattern);
    }
  }

  @Test
  void aGpuThatIsNotHere_isRefusedBeforeTheDriverIsAsked() {
    try (Pattern pattern = room.pattern()) {
      CheckpointedProcess suspended = suspend(pattern);
      GpuUuid nowhere = GpuUuid.of("GPU-00000000-1111-2222-3333-444444444444");
      FixAndRetryException refused =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.UNKNOWN_GPU,
              () -> suspended.resume(on(GpuMap.to(nowhere))));
      assertTrue(refused.getMessage().contains(nowhere.text()), refused.getMessage());
      suspended.resume();
      assertWholeOn(first, pattern);
    }
  }
}
