package dev.gpuprocess.internal.proc;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.FrozenGroup;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.Freezer.State;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Frozen control groups, visible and not. */
class FreezerTest {

  @Test
  @OutsideUse("A8")
  void anInvisibleGroupIsJudgedByTheWaitOfItsThreads() throws IOException {
    try (Workload idle = Workload.idle()) {
      Freezer inContainer = Freezer.look(new CgroupMounts(List.of()));
      assertEquals(State.UNKNOWN, inContainer.of(idle.pid()));
      Optional<FrozenGroup> frozen = FrozenGroup.second(idle.pid());
      assumeTrue(frozen.isPresent(), "this version of control groups cannot be used here");
      try (FrozenGroup group = frozen.get()) {
        await()
            .atMost(20, SECONDS)
            .until(() -> Freezer.look(new CgroupMounts(List.of())).of(idle.pid()) == State.FROZEN);
        group.thaw();
        await().atMost(20, SECONDS).until(() -> Freezer.look().of(idle.pid()) == State.THAWED);
      }
    }
  }

  @Test
  void aGoneProcessIsThawed() {
    assertEquals(State.THAWED, Freezer.look().of(Integer.MAX_VALUE));
  }

  @Test
  void groupsAreFoundBelowTheirMounts() {
    CgroupMounts mounts =
        mounts(
            "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
            "37 31 0:34 /docker/a /mnt/fre\\040ezer rw,relatime shared:9 - cgroup cgroup rw,x",
            "38 31 0:35 /docker/a /mnt/fre\\040ezer rw - cgroup cgroup rw,cpu",
            "41 31 0:38 /.. /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw");
    assertEquals(
        Optional.of(Path.of("/sys/fs/cgroup/unified/job/rank0")), mounts.unified("/../job/rank0"));
    assertEquals(Optional.of(Path.of("/sys/fs/cgroup/unified")), mounts.unified("/.."));
    assertEquals(Optional.empty(), mounts.unified("/"), "our own group has another name there");
    assertEquals(Optional.empty(), mounts.unified("/../../other"));
    assertEquals(Optional.empty(), mounts.legacy("freezer", "/docker/a"));
    CgroupMounts first =
        mounts(
            "37 31 0:34 /docker/a /mnt/fre\\040ezer rw shared:9 - cgroup cgroup rw,freezer",
            "39 31 0:36 / /cg/freezer rw - cgroup cgroup rw,memory");
    assertEquals(Optional.of(Path.of("/mnt/fre ezer/b")), first.legacy("freezer", "/docker/a/b"));
    assertEquals(Optional.empty(), first.legacy("freezer", "/docker/ab"));
    assertEquals(Optional.empty(), first.unified("/"));
  }

  private static CgroupMounts mounts(String... lines) {
    return new CgroupMounts(
        Arrays.stream(lines).flatMap(line -> Mount.parse(line).stream()).toList());
  }
}
