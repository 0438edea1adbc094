package dev.gpuprocess.internal.reservation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.state.GpuUsage;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** The pairs of a map of GPUs, on a machine with three GPUs and on one that has lost some. */
class GpuPlacementTest {

  private static final long GIB = 1L << 30;
  private static final GpuUuid A = uuid('a');
  private static final GpuUuid B = uuid('b');
  private static final GpuUuid C = uuid('c');
  private static final GpuUuid ELSEWHERE = uuid('e');

  private static GpuUuid uuid(char digit) {
    return GpuUuid.of("GPU-00000000-0000-0000-0000-00000000000" + digit);
  }

  private static Gpu gpu(GpuUuid uuid, String name, long free) {
    return new Gpu(uuid, name, 80 * GIB, free, List.of());
  }

  private static GpuReading machine(long freeA, long freeB, long freeC) {
    return new GpuReading(
        List.of(gpu(A, "H200", freeA), gpu(B, "H200", freeB), gpu(C, "A10", freeC)), List.of());
  }

  private static Map<GpuUuid, GpuUuid> pairs(
      GpuMap map, Map<GpuUuid, Long> held, GpuReading reading) throws ImpossibleMapException {
    return pairs(map, GpuUsage.stated(held), reading);
  }

  private static Map<GpuUuid, GpuUuid> pairs(GpuMap map, GpuUsage held, GpuReading reading)
      throws ImpossibleMapException {
    return pairs(map, held, Map.of(), reading);
  }

  private static Map<GpuUuid, GpuUuid> pairs(
      GpuMap map, GpuUsage held, Map<GpuUuid, String> machine, GpuReading reading)
      throws ImpossibleMapException {
    Map<GpuUuid, GpuUuid> targets =
        new GpuPlacement(held, needs(held), machine, reading, Gpu::freeBytes).pairs(map);
    assertEquals(targets.size(), targets.values().stream().distinct().count(), "no two to one");
    return targets;
  }

  /** Returns the placement of one process. */
  private static Map<GpuUuid, Long> needs(GpuUsage held) {
    Map<GpuUuid, Long> needs = new TreeMap<>();
    held.known().forEach((gpu, bytes) -> needs.put(gpu, GpuMemoryNeed.withMargin(bytes)));
    return needs;
  }

  private static String why(GpuMap map, GpuUsage held, GpuReading reading) {
    return assertThrows(ImpossibleMapException.class, () -> pairs(map, held, reading)).getMessage();
  }

  @Test
  void same_andWhatComesToTheSame_needsNoPairs() throws ImpossibleMapException {
    GpuReading machine = machine(GIB, GIB, GIB);
    assertEquals(Map.of(), pairs(GpuMap.same(), Map.of(A, GIB), machine));
    assertEquals(Map.of(), pairs(GpuMap.of(Map.of()), Map.of(A, GIB), machine));
    assertEquals(Map.of(), pairs(GpuMap.to(A), Map.of(A, GIB), machine));
  }

  @Test
  void swap_namesEveryGpuOfTheMachine() throws ImpossibleMapException {
    assertEquals(
        Map.of(A, B, B, A, C, C), pairs(GpuMap.swap(A, B), Map.of(A, GIB), machine(GIB, GIB, GIB)));
  }

  @Test
  void to_changesPlacesWithTheTarget() throws ImpossibleMapException {
    assertEquals(
        Map.of(A, B, B, A, C, C), pairs(GpuMap.to(B), Map.of(A, GIB), machine(GIB, GIB, GIB)));
  }

  @Test
  void to_fromAnotherMachine_takesTheTargetAndLeavesTheOthers() throws ImpossibleMapException {
    assertEquals(
        Map.of(ELSEWHERE, B, A, A, C, C),
        pairs(GpuMap.to(B), Map.of(ELSEWHERE, GIB), machine(GIB, GIB, GIB)));
  }

  @Test
  void to_severalOrUnknownGpus_isRefused() {
    GpuReading machine = machine(GIB, GIB, GIB);
    assertTrue(
        why(GpuMap.to(B), GpuUsage.stated(Map.of(A, GIB, C, GIB)), machine).contains("on 2 GPUs"));
    assertTrue(why(GpuMap.to(B), GpuUsage.UNKNOWN, machine).contains("not known on which"));
  }

  @Test
  void aGpuThatIsNotHere_orThatCannotBeRead_isRefused() {
    GpuReading machine = machine(GIB, GIB, GIB);
    GpuUsage held = GpuUsage.stated(Map.of(A, GIB));
    assertTrue(why(GpuMap.to(ELSEWHERE), held, machine).contains("is not a GPU of this machine"));
    assertTrue(why(GpuMap.swap(A, ELSEWHERE), held, machine).contains(ELSEWHERE.text()));
    GpuReading half = new GpuReading(machine.gpus(), List.of("GPU 3 is lost"));
    assertTrue(why(GpuMap.swap(A, B), held, half).contains("GPU 3 is lost"));
  }

  @Test
  void automatic_staysWhereItFits() throws ImpossibleMapException {
    assertEquals(
        Map.of(),
        pairs(GpuMap.automatic(), Map.of(A, GIB, B, GIB), machine(2 * GIB, 2 * GIB, 40 * GIB)));
  }

  @Test
  void automatic_goesToAnotherOfTheKind() throws ImpossibleMapException {
    assertEquals(
        Map.of(A, B, B, A, C, C),
        pairs(GpuMap.automatic(), Map.of(A, 4 * GIB), machine(GIB, 8 * GIB, 40 * GIB)));
  }

  @Test
  void automatic_noOtherOfTheKindIsFree_stays() throws ImpossibleMapException {
    assertEquals(
        Map.of(), pairs(GpuMap.automatic(), Map.of(A, 4 * GIB), machine(GIB, GIB, 40 * GIB)));
  }

  @Test
  void automatic_aGpuWhoseMemoryStays_isNotTakenFromIt() throws ImpossibleMapException {
    assertEquals(
        Map.of(),
        pairs(
            GpuMap.automatic(), Map.of(A, 4 * GIB, B, 4 * GIB), machine(GIB, 16 * GIB, 40 * GIB)));
  }

  @Test
  void automatic_theMarginOfTheDriverCounts() throws ImpossibleMapException {
    assertEquals(
        Map.of(A, B, B, A, C, C),
        pairs(GpuMap.automatic(), Map.of(A, GIB), machine(GIB, 2 * GIB, GIB)));
  }

  @Test
  void automatic_fromAnotherMachine_goesToTheGpuWithMostFreeMemory() throws ImpossibleMapException {
    assertEquals(
        Map.of(ELSEWHERE, C, A, A, B, B),
        pairs(GpuMap.automatic(), Map.of(ELSEWHERE, GIB), machine(2 * GIB, 4 * GIB, 40 * GIB)));
  }

  @Test
  void automatic_usageUnknown_stays() throws ImpossibleMapException {
    assertEquals(Map.of(), pairs(GpuMap.automatic(), GpuUsage.UNKNOWN, machine(0, GIB, GIB)));
  }

  @Test
  void automaticAmong_leavesAGpuOfOtherJobs_evenIfThereIsRoom() throws ImpossibleMapException {
    GpuReading room = machine(40 * GIB, 40 * GIB, 40 * GIB);
    assertEquals(
        Map.of(A, B, B, A, C, C), pairs(GpuMap.automatic(Set.of(B)), Map.of(A, GIB), room));
    assertEquals(Map.of(), pairs(GpuMap.automatic(Set.of(A)), Map.of(A, GIB), room));
    assertEquals(
        Map.of(A, B, B, A, C, C),
        pairs(GpuMap.automatic(Set.of(B)), Map.of(A, GIB), machine(40 * GIB, 0, 40 * GIB)),
        "the shortage is that of the GPU that may be used");
    assertEquals(
        Map.of(ELSEWHERE, A),
        pairs(
            GpuMap.automatic(Set.of(A)),
            GpuUsage.stated(Map.of(ELSEWHERE, GIB)),
            Map.of(ELSEWHERE, "H200"),
            machine(2 * GIB, 40 * GIB, 40 * GIB)));
  }

  @Test
  void automaticAmong_tooFewGpus_isRefused() {
    GpuReading room = machine(40 * GIB, 40 * GIB, 40 * GIB);
    GpuUsage two = GpuUsage.stated(Map.of(A, GIB, B, GIB));
    String why = why(GpuMap.automatic(Set.of(B)), two, room);
    assertTrue(why.contains("none of the same kind is left for " + A), why);
    assertTrue(
        why(GpuMap.automatic(Set.of(C)), GpuUsage.stated(Map.of(A, GIB)), room)
            .contains("none of the same kind"));
    assertTrue(
        why(GpuMap.automatic(Set.of(ELSEWHERE)), two, room).contains("is not a GPU of this"));
  }

  @Test
  void automaticAmong_usageUnknown_movesAllThatMayHoldMemory() throws ImpossibleMapException {
    GpuReading room = machine(40 * GIB, 40 * GIB, 40 * GIB);
    GpuMap map = GpuMap.automatic(Set.of(B));
    assertEquals(Map.of(A, B), pairs(map, GpuUsage.UNKNOWN, Map.of(A, "H200"), room));
    assertEquals(Map.of(), pairs(map, GpuUsage.UNKNOWN, Map.of(B, "H200"), room));
    String why = why(map, GpuUsage.UNKNOWN, Map.of(A, "H200", B, "H200"), room);
    assertTrue(why.contains("it is not known on which"), why);
  }

  private static String why(
      GpuMap map, GpuUsage held, Map<GpuUuid, String> machine, GpuReading reading) {
    return assertThrows(ImpossibleMapException.class, () -> pairs(map, held, machine, reading))
        .getMessage();
  }

  @Test
  void automatic_usageUnknownOnAnotherMachine_goesToGpusOfTheKindWithMostFreeMemory()
      throws ImpossibleMapException {
    GpuReading here = machine(GIB, 2 * GIB, 40 * GIB);
    assertEquals(
        Map.of(ELSEWHERE, B),
        pairs(GpuMap.automatic(), GpuUsage.UNKNOWN, Map.of(ELSEWHERE, "H200"), here));
    assertEquals(
        Map.of(ELSEWHERE, C),
        pairs(GpuMap.automatic(), GpuUsage.UNKNOWN, Map.of(ELSEWHERE, "A10"), here));
    assertEquals(
        Map.of(ELSEWHERE, B, A, A),
        pairs(GpuMap.automatic(), GpuUsage.UNKNOWN, Map.of(ELSEWHERE, "H200", A, "H200"), here),
        "a GPU that is here keeps its memory");
  }

  @Test
  void automatic_usageUnknownOnTheSameMachine_stays() throws ImpossibleMapException {
    assertEquals(
        Map.of(),
        pairs(
            GpuMap.automatic(),
            GpuUsage.UNKNOWN,
            Map.of(A, "H200", B, "H200", C, "A10"),
            machine(0, GIB, GIB)));
  }

  @Test
  void automatic_usageUnknownAndNoGpuOfTheKind_isRefused() {
    String why =
        why(GpuMap.automatic(), GpuUsage.UNKNOWN, Map.of(ELSEWHERE, "L4"), machine(GIB, GIB, GIB));
    assertTrue(why.contains("no GPU of the same kind that is left for " + ELSEWHERE), why);
  }

  @Test
  void automatic_fromAnotherMachine_namesTheGpusOfThatMachineAlone() throws ImpossibleMapException {
    GpuUuid other = uuid('f');
    assertEquals(
        Map.of(ELSEWHERE, B, other, A),
        pairs(
            GpuMap.automatic(),
            GpuUsage.stated(Map.of(ELSEWHERE, GIB)),
            Map.of(ELSEWHERE, "H200", other, "L4"),
            machine(GIB, 2 * GIB, 40 * GIB)),
        "the GPU of which it used nothing may go to any");
  }

  @Test
  void automatic_fromAnotherMachineAndNoRoom_takesTheGpuWithMost_whoseShortageIsReported()
      throws ImpossibleMapException {
    assertEquals(
        Map.of(ELSEWHERE, B),
        pairs(
            GpuMap.automatic(),
            GpuUsage.stated(Map.of(ELSEWHERE, 4 * GIB)),
            Map.of(ELSEWHERE, "H200"),
            machine(GIB, 2 * GIB, 40 * GIB)));
  }

  @Test
  void same_memoryOfAGpuThatIsNotHere_isRefused() throws ImpossibleMapException {
    GpuReading here = machine(GIB, GIB, GIB);
    Map<GpuUuid, String> machine = Map.of(ELSEWHERE, "H200");
    GpuUsage held = GpuUsage.stated(Map.of(ELSEWHERE, GIB));
    String known = why(GpuMap.same(), held, machine, here);
    assertTrue(known.contains("GpuMap.automatic()"), known);
    String unknown = why(GpuMap.same(), GpuUsage.UNKNOWN, machine, here);
    assertTrue(unknown.contains(ELSEWHERE.text()), unknown);
    GpuReading half = new GpuReading(here.gpus(), List.of("GPU 3 cannot be read"));
    assertEquals(Map.of(), pairs(GpuMap.same(), held, machine, half));
    assertEquals(
        Map.of(), pairs(GpuMap.same(), held, here), "of this machine, and not seen from here");
    assertEquals(
        Map.of(),
        pairs(GpuMap.same(), GpuUsage.UNKNOWN, Map.of(ELSEWHERE, "H200", A, "H200"), here),
        "it may have used A alone");
  }

  @Test
  void pairs_areTakenAsTheyAre() throws ImpossibleMapException {
    GpuMap map = GpuMap.of(Map.of(A, B, B, A));
    assertEquals(Map.of(A, B, B, A), pairs(map, GpuUsage.UNKNOWN, machine(0, 0, 0)));
  }

  @Test
  void withoutNvml_mapsOfPairsWork() throws ImpossibleMapException {
    assertEquals(Map.of(), GpuPlacement.pairsUnseen(GpuMap.same()));
    assertEquals(Map.of(), GpuPlacement.pairsUnseen(GpuMap.automatic()));
    assertEquals(Map.of(A, A), GpuPlacement.pairsUnseen(GpuMap.of(Map.of(A, A))));
    for (GpuMap map : List.of(GpuMap.swap(A, B), GpuMap.to(A), GpuMap.automatic(Set.of(A)))) {
      assertThrows(ImpossibleMapException.class, () -> GpuPlacement.pairsUnseen(map));
    }
  }

  @Test
  void mapsThatCannotBe_cannotBeMade() {
    assertThrows(IllegalArgumentException.class, () -> GpuMap.swap(A, A));
    assertThrows(IllegalArgumentException.class, () -> GpuMap.of(Map.of(A, C, B, C)));
  }
}
