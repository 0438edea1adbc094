package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.opentest4j.TestAbortedException;

/** All known traps, shown on the real CRIU, and how the driver handles them. */
class TrapsTest {

  private static final List<String> ASKED = new ArrayList<>();
  private static final List<String> HELD = new ArrayList<>();
  private static final Map<String, String> NOT_HERE = new TreeMap<>();
  private static final AtomicInteger NUMBER = new AtomicInteger();

  @TempDir static Path directory;

  @BeforeAll
  static void needCriu() {
    RealCriu.assume();
  }

  @AfterAll
  static void tell() {
    int possible = ASKED.size() - NOT_HERE.size();
    StringBuilder line = new StringBuilder("criu traps: %d of %d".formatted(HELD.size(), possible));
    NOT_HERE.forEach(
        (row, why) -> line.append("; not here: ").append(row).append(", ").append(why));
    Figures.add(line.toString());
  }

  @TestFactory
  Stream<DynamicTest> bites() {
    return Stream.of(TenTraps.all(), DumpTraps.all(), RestoreTraps.all())
        .flatMap(List::stream)
        .map(trap -> DynamicTest.dynamicTest(trap.row(), () -> show(trap)));
  }

  private static void show(Trap trap) throws Exception {
    ASKED.add(trap.row());
    try {
      trap.proof().show(fixture());
    } catch (TestAbortedException e) {
      NOT_HERE.put(trap.row(), String.valueOf(e.getMessage()));
      throw e;
    }
    Assertions.assertEquals(
        List.of(), ProcFs.descendants(ProcessHandle.current().pid()), "nothing is left of it");
    HELD.add(trap.row());
  }

  private static TrapFixture fixture() throws IOException {
    Path own = Files.createDirectory(directory.resolve("trap" + NUMBER.incrementAndGet()));
    return new TrapFixture(own, new RpcCriuDriver());
  }
}
