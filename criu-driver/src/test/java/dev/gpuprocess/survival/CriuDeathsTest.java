package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.criu.RealCriu;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * CRIU and the JVM that controls it are killed at every fourth stage of a dump and a restore, from
 * a first one that is drawn, and at random moments of a large dump. A process is lost when it
 * neither runs nor comes back from its image.
 */
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class CriuDeathsTest {

  private static final int SMALL = 8;
  private static final int MEDIUM = 128;
  private static final int LARGE = Integer.getInteger("gpuprocess.deaths.mib", 128);
  private static final long SEED = Long.getLong("gpuprocess.deaths.seed", 20_261_121);

  /** The step from one stage to the next; 1 for all stages. */
  private static final int STEP = Integer.getInteger("gpuprocess.deaths.step", 4);

  private static final int RANDOM_KILLS = 4;
  private static final int ENDS = 4;
  private static final long END_NANOS = 3_000_000;
  private static final int CONTROLLERS = 2;
  private static final long CONTROLLER_NANOS = 1_000_000_000;

  private static final List<String> LOST = new ArrayList<>();
  private static int kills;
  private static int diedInCriusCode;

  @TempDir static Path directory;

  private final Random random = new Random(SEED);

  /** The first stage. */
  private final int first = ThreadLocalRandom.current().nextInt(STEP);

  @BeforeAll
  static void needCriu() {
    RealCriu.assume();
  }

  @AfterAll
  static void tell() {
    assertTrue(kills > 0, "nothing was killed");
    Figures.add(
        "criu deaths: %d kills, %d lost (at random: dumps of %d MiB, seed %d)%s"
            .formatted(
                kills,
                LOST.size(),
                LARGE,
                SEED,
                diedInCriusCode == 0
                    ? ""
                    : "; not counted: %d in which the process died of SIGTRAP in CRIU's own code"
                        .formatted(diedInCriusCode)));
  }

  private static Path place() {
    return SimulatedMachine.make(directory.resolve("place-" + System.nanoTime()));
  }

  private static void note(String what, CriuDeath death, Optional<String> fault) {
    kills += death.killed() ? 1 : 0;
    fault.ifPresent(why -> LOST.add(what + ": " + why));
  }

  private static void assertNoneLost() {
    assertEquals(List.of(), LOST, "seed " + SEED);
  }

  /** A tree with a network of its own has the most stages. */
  private static HostSubject withOwnNetwork() {
    return HostSubject.start(directory, SMALL, "unshare", "--net");
  }

  private static HostSubject plain() {
    return HostSubject.start(directory, SMALL);
  }

  private static List<String> moments(CrashedVerb deed, Supplier<HostSubject> start) {
    try (HostSubject subject = start.get()) {
      List<String> moments = new CriuDeath(deed, subject, place()).rehearse();
      assertFalse(moments.isEmpty(), "no moment at which to die in " + deed);
      return moments;
    }
  }

  @ParameterizedTest
  @EnumSource
  void criuDiesAtStages(CrashedVerb deed) {
    List<String> moments = moments(deed, CriuDeathsTest::withOwnNetwork);
    for (int moment = first; moment < moments.size(); moment += STEP) {
      try (HostSubject subject = withOwnNetwork()) {
        CriuDeath death = new CriuDeath(deed, subject, place());
        note(deed + ", CRIU at " + moments.get(moment), death, death.ofCriuAt(moment, 0));
      }
    }
    assertNoneLost();
  }

  /** CRIU was allowed to kill the tree, and dies with it, before it or after it. */
  @Test
  void criuDiesWhileItKillsTheTree() {
    int mayKill =
        moments(CrashedVerb.DUMP, CriuDeathsTest::withOwnNetwork).indexOf(WatchedCriu.MAY_KILL);
    for (int i = 0; i < ENDS; i++) {
      long nanos = 1 + (long) (random.nextDouble() * END_NANOS);
      try (HostSubject subject = withOwnNetwork()) {
        CriuDeath death = new CriuDeath(CrashedVerb.DUMP, subject, place());
        note("dump, CRIU at its end", death, death.ofCriuAt(mayKill, nanos));
      }
    }
    assertNoneLost();
  }

  /** Otherwise its end could not be awaited when its controller is dead. */
  @ParameterizedTest
  @EnumSource
  void criuIsFoundAtEveryStage(CrashedVerb deed) {
    try (HostSubject subject = plain()) {
      assertEquals(List.of(), new CriuDeath(deed, subject, place()).unseen());
    }
  }

  @ParameterizedTest
  @EnumSource
  void theControllerDiesAtStages(CrashedVerb deed) {
    List<String> moments = moments(deed, CriuDeathsTest::plain);
    for (int moment = first; moment < moments.size(); moment += STEP) {
      try (HostSubject subject = plain()) {
        CriuDeath death = new CriuDeath(deed, subject, place());
        note(deed + ", controller at " + moments.get(moment), death, death.ofController(moment, 0));
      }
    }
    assertNoneLost();
  }

  @Test
  void criuDiesAtRandom() {
    long whole = nanosOfADump();
    HostSubject subject = HostSubject.start(directory, LARGE);
    try {
      for (int i = 0; i < RANDOM_KILLS; i++) {
        Path place = place();
        long nanos = (long) (random.nextDouble() * whole);
        CriuDeath death = new CriuDeath(CrashedVerb.DUMP, subject, place);
        Optional<String> fault = death.ofCriuAfter(nanos);
        FileTree.remove(place);
        if (subject.diedInCriusCode()) {
          diedInCriusCode++;
        } else {
          note("dump, CRIU after " + nanos + " ns", death, fault);
        }
        if (!subject.isFirstLife()) {
          subject.close();
          subject = HostSubject.start(directory, LARGE);
        }
      }
    } finally {
      subject.close();
    }
    assertNoneLost();
  }

  private static long nanosOfADump() {
    Path place = place();
    try (HostSubject subject = HostSubject.start(directory, LARGE)) {
      CriuDeath death = new CriuDeath(CrashedVerb.DUMP, subject, place);
      long begin = System.nanoTime();
      death.rehearse();
      return System.nanoTime() - begin;
    } finally {
      FileTree.remove(place);
    }
  }

  /** A machine may dump faster than the first moment drawn: then the next one comes before it. */
  @Test
  void theControllerDiesAtRandom() {
    long latest = CONTROLLER_NANOS;
    for (int killed = 0; killed < CONTROLLERS; ) {
      long nanos = (long) (random.nextDouble() * latest);
      try (HostSubject subject = HostSubject.start(directory, MEDIUM)) {
        CriuDeath death = new CriuDeath(CrashedVerb.DUMP, subject, place());
        note("dump, controller after " + nanos + " ns", death, death.ofController(-1, nanos));
        if (death.killed()) {
          killed++;
        } else {
          latest = nanos;
        }
      }
    }
    assertNoneLost();
  }
}
