package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Descriptors;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A CRIU that does what it should not. Whatever it does, it is reaped and nothing stays open. */
@NullUnmarked
@Tag("slow")
class BadCriuTest {

  /** A pid that no process has: above the largest possible pid. */
  private static final int NOBODY = 4_194_304;

  @TempDir Path directory;
  private Path images;
  private Path work;
  private Workload workload;
  private long descriptors;

  @BeforeEach
  void start() throws IOException {
    images = Files.createDirectory(directory.resolve("images"));
    work = Files.createDirectory(directory.resolve("work"));
    workload = Workload.counter(directory);
    driver("").version(); // so that the libraries are loaded
    descriptors = Descriptors.open(directory);
  }

  @AfterEach
  void nothingIsLeft() {
    workload.close();
    assertTrue(Descriptors.open(directory) <= descriptors, () -> descriptors + " were open before");
    assertEquals(List.of(), ProcFs.descendants(ProcessHandle.current().pid()));
  }

  private RpcCriuDriver driver(String scenario) {
    return new RpcCriuDriver(FakeCriu.create(directory, scenario));
  }

  private DumpReport dump(String scenario) {
    return dump(scenario, DumpDirectories.PATIENCE, DumpListener.NONE);
  }

  private DumpReport dump(String scenario, Duration deadline, DumpListener listener) {
    DumpOptions options = DumpOptions.builder().deadline(deadline).build();
    return driver(scenario)
        .dump(new DumpRequest(workload.identity(), images, work, options), listener);
  }

  private CriuException failedDump(String scenario) {
    CriuException e = assertThrows(CriuException.class, () -> dump(scenario));
    assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
    workload.assertGoesOn();
    return e;
  }

  private void restore(String scenario) throws IOException {
    restore(scenario, RestoreOptions.builder().deadline(DumpDirectories.PATIENCE).build());
  }

  private void restore(String scenario, RestoreOptions options) throws IOException {
    Files.write(images.resolve("inventory.img"), HexFormat.of().parseHex("1631315800000000"));
    // one process, the leader of its group and session, with one thread
    Files.write(
        images.resolve("pstree.img"),
        HexFormat.of()
            .parseHex("194356543030275016000000088080800210001880808002208080800228" + "80808002"));
    for (String name : List.of("files", "core-%d", "ids-%d", "mm-%d", "fs-%d")) {
      Files.createFile(images.resolve(name.formatted(NOBODY) + ".img"));
    }
    Files.createFile(images.resolve("pagemap-" + NOBODY + ".img"));
    driver(scenario)
        .restore(new RestoreRequest(images, work, NOBODY, options), RestoreListener.NONE);
  }

  @Test
  void hasFourDescriptorsAndASessionOfItsOwn() {
    CriuException e =
        failedDump(
            """
            opendir my $fds, '/proc/self/fd'; my @all = sort readdir $fds; closedir $fds;
            print join(' ', grep { /\\d/ && -e "/proc/self/fd/$_" } @all);
            print $$ == POSIX::getpgrp() ? ' leads' : ' follows';
            """);
    assertEquals("0 1 2 3 leads", e.criu().orElseThrow().stderr());
  }

  @Test
  void repliesWithGarbage() {
    assertTrue(
        failedDump("send_packet('what?')").getMessage().contains("not a message of its protocol"));
  }

  @Test
  void repliesTooShort() {
    assertTrue(
        failedDump("send_packet(field(1, $DUMP))")
            .getMessage()
            .contains("not a message of its protocol"));
  }

  @Test
  void repliesWithAnEmptyPacket() {
    failedDump("send_packet('')");
  }

  @Test
  void repliesWithTheWordsOfAFailureWithoutReason() {
    CriuException e = failedDump("reply($DUMP, 0)");
    assertTrue(e.getMessage().contains("CRIU gave no reason"), e.getMessage());
    assertEquals("exit 0", e.criu().orElseThrow().exit());
  }

  @Test
  void endsWithoutAWord() {
    CriuException e = failedDump("exit 7");
    assertTrue(e.getMessage().contains("without a reply, exit 7"), e.getMessage());
  }

  @Test
  void crashes() {
    CriuException e = failedDump("kill 'SEGV', $$; sleep 10");
    assertTrue(e.getMessage().contains("CRIU crashed with signal 11"), e.getMessage());
    assertEquals("signal 11", e.criu().orElseThrow().exit());
  }

  @Test
  void crashesWhileWeDecide() {
    CriuException e =
        failedDump("reply(6, 1, text(5, text(1, 'post-dump'))); kill 'KILL', $$; sleep 10");
    assertEquals("signal 9", e.criu().orElseThrow().exit());
  }

  @Test
  void hangsUpButStays() {
    failedDump("close $socket; sleep 1000 while 1");
  }

  @Test
  void printsMoreThanAPipeHolds() {
    CriuException e = failedDump("print 'x' x 999 . \"\\n\" for 1 .. 1000; print 'the end'");
    assertTrue(e.getMessage().contains("the end"), e.getMessage());
    assertTrue(e.criu().orElseThrow().stderr().length() <= 16 << 10);
  }

  @Test
  void saysWhyOnStderr_beforeThereIsALog() {
    CriuException e =
        failedDump("print STDERR \"Error (a.c:1): no room in the inn\\n\"; reply($DUMP, 0)");
    assertEquals("no room in the inn", e.criu().orElseThrow().firstError());
  }

  @Test
  void neverReplies() {
    long begin = System.nanoTime();
    OperationTimedOutException e =
        assertThrows(
            OperationTimedOutException.class,
            () -> dump("sleep 1000 while 1", Duration.ofMillis(300), DumpListener.NONE));
    assertTrue(Duration.ofNanos(System.nanoTime() - begin).compareTo(DumpDirectories.PATIENCE) < 0);
    assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
    assertInstanceOf(CriuException.class, e.getCause());
    workload.assertGoesOn();
  }

  @Test
  void ignoresEverySignalThatCanBeIgnored() {
    assertThrows(
        OperationTimedOutException.class,
        () ->
            dump(
                "$SIG{$_} = 'IGNORE' for qw(TERM INT HUP); sleep 1000 while 1",
                Duration.ofMillis(300),
                DumpListener.NONE));
  }

  @Test
  void writesALogWithoutEnd() {
    CriuException e =
        failedDump(
            """
            open my $log, '>', '%s/dump.log'; truncate $log, 2 << 30; sleep 1000 while 1
            """
                .formatted(work));
    assertTrue(e.getMessage().contains("2048 MiB of log"), e.getMessage());
  }

  @Test
  void saysItDumpedButTheProcessIsThere() {
    CriuException e =
        assertThrows(
            CriuException.class, () -> dump("notify('post-dump'); reply($DUMP, 1); exit 0"));
    assertTrue(e.getMessage().contains("still exists"), e.getMessage());
  }

  @Test
  void diesAfterItsWorkIsDone_andTheDumpIsGood() {
    // It has our word that the images are good, kills the tree, and dies before it can say so.
    dump("notify('post-dump') or exit 1; kill 'KILL', " + workload.pid() + "; kill 'KILL', $$");
    assertFalse(workload.identity().isAlive());
  }

  @Test
  void listenerTimesOut_isAReasonToTryAgain() {
    DumpListener slow =
        new DumpListener() {
          @Override
          public void postDump() {
            throw new OperationTimedOutException("it is a test", Failure.of("seal", NOBODY));
          }
        };
    OperationTimedOutException e =
        assertThrows(
            OperationTimedOutException.class,
            () -> dump("notify('post-dump') or exit 1", DumpDirectories.PATIENCE, slow));
    assertTrue(e.getMessage().contains("the process runs on: it is a test"), e.getMessage());
    assertInstanceOf(CriuException.class, e.getCause());
    workload.assertGoesOn();
  }

  @Test
  void killsTheTreeWithoutOurWord() {
    CriuException e =
        assertThrows(
            CriuException.class, () -> dump("kill 'KILL', " + workload.pid() + "; exit 1"));
    assertTrue(e.getMessage().contains("the process has ended"), e.getMessage());
  }

  @Test
  void restore_failsWithPidMinusOne_andNobodyIsHarmed() throws IOException {
    // The number as CRIU sends it: ten bytes, all bits set.
    String minusOne = "text(4, \"\\x08\" . \"\\xff\" x 9 . \"\\x01\")";
    CriuException e =
        assertThrows(CriuException.class, () -> restore("reply($RESTORE, 0, " + minusOne + ")"));
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    workload.assertGoesOn();
  }

  @Test
  void restore_succeedsWithoutNamingTheProcess() {
    assertThrows(CriuException.class, () -> restore("reply($RESTORE, 1, restored(1))"));
  }

  @Test
  void restore_buildsAnotherProcess_andIsRefused() {
    CriuException e =
        assertThrows(
            CriuException.class,
            () -> restore("notify('post-restore', 1) and print 'agreed'; reply($RESTORE, 0)"));
    assertReason(ImageException.class, ImageException.Reason.CORRUPT, e.getCause());
    assertEquals("", e.criu().orElseThrow().stderr());
  }

  @Test
  void restore_hangsWithChildren_whichAreEnded() throws IOException {
    Path file = directory.resolve("child");
    // Two generations; the child is in a session of its own, and ignores what it can.
    String scenario =
        """
        if (my $child = fork) { sleep 1000 while 1 }
        POSIX::setsid(); $SIG{$_} = 'IGNORE' for qw(TERM INT HUP);
        if (my $grandchild = fork) {
          open my $out, '>', '%1$s.new'; print $out "$$ $grandchild"; close $out;
          rename '%1$s.new', '%1$s';
        }
        sleep 1000 while 1;
        """
            .formatted(file);
    Cancellation cancellation = new Cancellation();
    CompletableFuture<Void> canceller =
        Canceller.when(cancellation, () -> Files.exists(file), "two generations");
    RestoreOptions options =
        RestoreOptions.builder()
            .deadline(DumpDirectories.PATIENCE)
            .cancellation(cancellation)
            .build();
    OperationCancelledException e =
        assertThrows(OperationCancelledException.class, () -> restore(scenario, options));
    canceller.join();
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    for (String pid : Files.readString(file).split(" ")) {
      assertFalse(
          ProcessIdentity.of(Long.parseLong(pid)).filter(ProcessIdentity::isAlive).isPresent());
    }
  }
}
