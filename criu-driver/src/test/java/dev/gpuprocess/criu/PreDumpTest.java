package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.DumpOptions;
import dev.gpuprocess.ProcessIdentity;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.MissingKernelFeatureException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.PreDumpMode;
import dev.gpuprocess.spi.CriuFeature;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
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

  private void preDump(RpcCriuDriver driver, String round, DumpOptions options) {
    Site site = Site.in(directory.resolve(round), driver);
    driver.preDump(new DumpRequest(workload.identity(), site.images(), site.work(), options));
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
    DumpOptions options =
        Site.dump()
            .parentImages(Path.of("..", "..", "one", "images"))
            .preDumpMode(PreDumpMode.READ)
            .build();
    preDump(driver, "two", options);
    String request = Files.readString(heard);
    assertTrue(request.startsWith("080d"), request); // SINGLE_PRE_DUMP
    assertTrue(request.contains("7801"), request); // track_mem
    assertTrue(request.contains("e80302"), request); // pre_dump_mode VM_READ
    assertTrue(request.contains("72102e2e2f2e2e2f6f6e652f696d61676573"), request); // parent_img
    workload.assertGoesOn();
  }

  @Test
  void failsWithoutHarm() {
    RpcCriuDriver driver =
        fake("print STDERR \"Error (mem.c:1): it cannot be\\n\"; reply($type, 0); exit 255");
    CriuException e =
        assertThrows(CriuException.class, () -> preDump(driver, "one", Site.dump().build()));
    assertTrue(e.getMessage().contains("the process runs on: it cannot be"), e.getMessage());
    workload.assertGoesOn();
  }

  @Test
  void neverEnds_andIsEnded() {
    DumpOptions brief = DumpOptions.builder().deadline(Duration.ofMillis(300)).build();
    assertThrows(
        OperationTimedOutException.class, () -> preDump(fake("sleep 1000 while 1"), "one", brief));
    workload.assertGoesOn();
  }

  @Test
  void optionsThatATreeThatRunsOnCannotHave_areRefused() {
    RpcCriuDriver driver = fake("exit 1");
    DumpOptions lazy = Site.dump().lazyPages(new PageEndpoint("127.0.0.1", 1)).build();
    assertThrows(IllegalArgumentException.class, () -> preDump(driver, "one", lazy));
    DumpOptions stopped = Site.dump().leaveStopped(true).build();
    assertThrows(IllegalArgumentException.class, () -> preDump(driver, "two", stopped));
  }

  @Test
  void isRefused_whereTheKernelDoesNotTrackMemory() {
    RpcCriuDriver driver = realThatTracks(false);
    MissingKernelFeatureException e =
        assertThrows(
            MissingKernelFeatureException.class, () -> preDump(driver, "one", Site.dump().build()));
    assertEquals(CriuFeature.MEMORY_TRACKING, e.feature());
    assertTrue(e.getMessage().contains("does not track"), e.getMessage());
    assertFalse(Files.exists(directory.resolve("one/work/dump.log")));
    workload.assertGoesOn();
  }

  @Test
  void twoRoundsAndADump_restore_whereTheKernelTracksMemory() {
    RpcCriuDriver driver = realThatTracks(true);
    Path parent = Path.of("..", "..");
    preDump(driver, "one", Site.dump().build());
    preDump(driver, "two", Site.dump().parentImages(parent.resolve("one/images")).build());
    Site last = Site.in(directory.resolve("last"), driver);
    DumpOptions options = Site.dump().parentImages(parent.resolve("two/images")).build();
    last.dump(workload.identity(), options, DumpListener.NONE);
    ProcessIdentity restored = last.restore(workload.pid(), Site.shellJob().build()).process();
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
