package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.MissingKernelFeatureException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.PreDumpMode;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpMemory;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Rounds of memory before a dump: for real where the kernel can, else the conversation's shape. */
@NullUnmarked
class PreDumpTest {

  /** A kernel that tracks memory: features, then mem_track. */
  private static final String TRACKS =
      "if ($type == 9) { reply(9, 1, text(8, field(1, 1))); exit 0 }\n";

  @TempDir Path directory;
  private Workload workload;

  @BeforeEach
  void start() {
    workload = Workload.counter(directory);
  }

  @AfterEach
  void end() {
    workload.close();
  }

  private void preDump(RpcCriuDriver driver, String round, DumpMemory memory) {
    preDump(driver, round, DumpDirectories.dump().build(), memory);
  }

  private void preDump(RpcCriuDriver driver, String round, DumpOptions options, DumpMemory memory) {
    DumpDirectories site = DumpDirectories.in(directory.resolve(round), driver);
    driver.preDump(request(site, options, memory));
  }

  private RpcCriuDriver fake(String scenario) {
    return new RpcCriuDriver(FakeCriu.create(directory.resolve("fake"), TRACKS + scenario));
  }

  @Test
  void asksForOneRound_withItsParentAndMode() throws IOException {
    Path heard = directory.resolve("heard");
    RpcCriuDriver driver =
        fake(
            "open my $f, '>', '%s'; print $f unpack 'H*', $request; close $f; reply($type, 1); exit 0"
                .formatted(heard));
    preDump(driver, "two", since("one").preDumpMode(PreDumpMode.READ));
    String request = Files.readString(heard);
    assertTrue(request.startsWith("080d"), request); // SINGLE_PRE_DUMP
    assertTrue(request.contains("7801"), request); // track_mem
    assertTrue(request.contains("e80302"), request); // pre_dump_mode VM_READ
    assertTrue(request.contains("72102e2e2f2e2e2f6f6e652f696d61676573"), request); // parent_img
    workload.assertGoesOn();
  }

  /** Notes each request's type and what its parent is; then does what a good CRIU does. */
  private static final String CHAIN =
      """
      open my $heard, '>>', '%s'; $heard->autoflush(1);
      while (1) {
        my ($parent) = $request =~ /(one|two)\\/images/;
        print $heard "$$ $type " . ($parent // '-') . "\\n";
        if ($type == $DUMP) {
          notify('pre-dump') && notify('query-ext-files') && notify('post-dump') or exit 1;
          reply($DUMP, 1); exit 0
        }
        reply($type, %s);
        $request = receive(); $type = ord substr $request, 1, 1;
      }
      """;

  private static DumpMemory since(String round) {
    return DumpMemory.WHOLE.parentImages(Path.of("..", "..", round, "images"));
  }

  private DumpRequest request(DumpDirectories site, DumpMemory memory) {
    return request(site, DumpDirectories.dump().build(), memory);
  }

  private DumpRequest request(DumpDirectories site, DumpOptions options, DumpMemory memory) {
    return new DumpRequest(workload.identity(), site.images(), site.work(), options, memory);
  }

  @Test
  void chain_makesAllRoundsAndTheDump_withOneCriu() throws IOException {
    Path heard = directory.resolve("heard");
    RpcCriuDriver driver = fake("use IO::Handle;" + CHAIN.formatted(heard, 1));
    DumpDirectories one = DumpDirectories.in(directory.resolve("one"), driver);
    DumpDirectories two = DumpDirectories.in(directory.resolve("two"), driver);
    DumpDirectories last = DumpDirectories.in(directory.resolve("last"), driver);
    List<String> stages = new ArrayList<>();
    DumpListener listener =
        new DumpListener() {
          @Override
          public void postDump() {
            stages.add("post-dump");
          }
        };
    try (PreDumpChain chain = driver.preDumps()) {
      chain.preDump(request(one, DumpMemory.WHOLE));
      chain.preDump(request(two, since("one")));
      DumpOptions options = DumpDirectories.backup().build();
      chain.dump(request(last, options, since("two")), listener);
      assertThrows(
          IllegalStateException.class,
          () ->
              chain.dump(
                  request(
                      DumpDirectories.in(directory.resolve("more"), driver), options, since("two")),
                  listener));
    }
    List<String> lines = Files.readAllLines(heard);
    String criu = lines.get(0).split(" ")[0];
    assertEquals(List.of(criu + " 4 -", criu + " 4 one", criu + " 1 two"), lines);
    assertEquals(List.of("post-dump"), stages);
    workload.assertGoesOn();
  }

  @Test
  void chain_endsWithTheFirstRoundThatFails() {
    RpcCriuDriver driver = fake("use IO::Handle;" + CHAIN.formatted(directory.resolve("heard"), 0));
    DumpDirectories one = DumpDirectories.in(directory.resolve("one"), driver);
    DumpDirectories two = DumpDirectories.in(directory.resolve("two"), driver);
    try (PreDumpChain chain = driver.preDumps()) {
      assertThrows(CriuException.class, () -> chain.preDump(request(one, DumpMemory.WHOLE)));
      assertThrows(
          IllegalStateException.class, () -> chain.preDump(request(two, DumpMemory.WHOLE)));
    }
    workload.assertGoesOn();
  }

  @Test
  void failsWithoutHarm() {
    RpcCriuDriver driver =
        fake("print STDERR \"Error (mem.c:1): it cannot be\\n\"; reply($type, 0); exit 255");
    CriuException e =
        assertThrows(CriuException.class, () -> preDump(driver, "one", DumpMemory.WHOLE));
    assertTrue(e.getMessage().contains("the process runs on: it cannot be"), e.getMessage());
    workload.assertGoesOn();
  }

  @Test
  void neverEnds_andIsEnded() {
    DumpOptions brief = DumpOptions.builder().deadline(Duration.ofMillis(300)).build();
    assertThrows(
        OperationTimedOutException.class,
        () -> preDump(fake("sleep 1000 while 1"), "one", brief, DumpMemory.WHOLE));
    workload.assertGoesOn();
  }

  @Test
  void optionsThatATreeThatRunsOnCannotHave_areRefused() {
    RpcCriuDriver driver = fake("exit 1");
    DumpMemory lazy = DumpMemory.WHOLE.lazyPages(new PageEndpoint("127.0.0.1", 1));
    assertThrows(IllegalArgumentException.class, () -> preDump(driver, "one", lazy));
    DumpOptions stopped = DumpDirectories.dump().leaveStopped(true).build();
    assertThrows(
        IllegalArgumentException.class, () -> preDump(driver, "two", stopped, DumpMemory.WHOLE));
  }

  @Test
  void isRefused_whereTheKernelDoesNotTrackMemory() {
    RpcCriuDriver driver = realThatTracks(false);
    MissingKernelFeatureException e =
        assertThrows(
            MissingKernelFeatureException.class, () -> preDump(driver, "one", DumpMemory.WHOLE));
    assertEquals(CriuFeature.MEMORY_TRACKING, e.feature());
    assertTrue(e.getMessage().contains("does not track"), e.getMessage());
    assertFalse(Files.exists(directory.resolve("one/work/dump.log")));
    workload.assertGoesOn();
  }

  @Test
  void twoRoundsAndADump_restore_whereTheKernelTracksMemory() {
    RpcCriuDriver driver = realThatTracks(true);
    preDump(driver, "one", DumpMemory.WHOLE);
    preDump(driver, "two", since("one"));
    DumpDirectories last = DumpDirectories.in(directory.resolve("last"), driver);
    last.dump(workload.identity(), since("two"));
    assertGoesOnFrom(last);
  }

  @Test
  void aChain_restores_whereTheKernelTracksMemory() {
    RpcCriuDriver driver = realThatTracks(true);
    DumpDirectories one = DumpDirectories.in(directory.resolve("one"), driver);
    DumpDirectories last = DumpDirectories.in(directory.resolve("last"), driver);
    try (PreDumpChain chain = driver.preDumps()) {
      chain.preDump(request(one, DumpMemory.WHOLE));
      chain.dump(request(last, since("one")), DumpListener.NONE);
    }
    assertGoesOnFrom(last);
  }

  private void assertGoesOnFrom(DumpDirectories site) {
    ProcessIdentity restored =
        site.restore(workload.pid(), DumpDirectories.shellJob().build()).process();
    try {
      workload.assertGoesOn();
    } finally {
      Workload.end(restored);
    }
  }

  private static RpcCriuDriver realThatTracks(boolean wanted) {
    RealCriu.assume();
    RpcCriuDriver driver = new RpcCriuDriver();
    boolean tracks = driver.features().orElseThrow().contains(CriuFeature.MEMORY_TRACKING);
    Assumptions.assumeTrue(
        tracks == wanted,
        tracks ? "this kernel tracks memory" : "this kernel does not track memory");
    return driver;
  }
}
