package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.images.TreeReader;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreReport;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A process with a file as {@code sem_open} makes them: opened by a name that is gone, linked to
 * the one that others know.
 */
@NullUnmarked
@OutsideUse("A14")
@RequiresCriu
class LinkRemapTest {

  private static final String PROGRAM =
      """
      use POSIX (); POSIX::setsid();
      my ($first, $name, $ready) = @ARGV;
      open my $file, '+>', $first or die; syswrite $file, 'held';
      link $first, $name or die; unlink $first or die;
      open my $out, '>', $ready or die; print $out fileno $file; close $out;
      sleep 1000 while 1;
      """;

  @TempDir Path directory;
  private Path shared;
  private Path semaphore;
  private Workload workload;
  private Path open;
  private DumpDirectories site;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    shared = Files.createTempDirectory(Path.of("/dev/shm"), "link-remap-test");
    semaphore = shared.resolve("sem.name");
    Path ready = directory.resolve("ready");
    workload =
        Workload.of(
            "perl",
            "-e",
            PROGRAM,
            shared.resolve("first").toString(),
            semaphore.toString(),
            ready.toString());
    Workload.await(() -> Files.exists(ready) && !read(ready).isEmpty(), "the file");
    open = Path.of("/proc/" + workload.pid() + "/fd/" + read(ready));
    site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver());
  }

  @AfterEach
  void end() {
    ProcessIdentity.of(workload.pid()).ifPresent(Workload::end);
    workload.close();
    FileTree.remove(shared);
  }

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private void kill() {
    ProcessIdentity.of(workload.pid()).ifPresent(Workload::end);
    Workload.await(() -> ProcessIdentity.of(workload.pid()).isEmpty(), "the pid to be free");
  }

  private RestoreReport restore() {
    return site.restore(
        workload.pid(), DumpDirectories.shellJob().criu(c -> c.shellJob(false)).build());
  }

  private List<String> names() throws IOException {
    try (Stream<Path> files = Files.list(shared)) {
      return files.map(file -> file.getFileName().toString()).sorted().toList();
    }
  }

  /** The process has the file that others know by its name, with what was in it at the dump. */
  private void assertShared() throws IOException {
    assertTrue(Files.isSameFile(open, semaphore), "another file than the one with the name");
    assertEquals("held", read(open));
    assertEquals(List.of("sem.name"), names());
  }

  @Test
  void snapshot_comesBackAgainAndAgain() throws IOException {
    site.dump(workload.identity(), DumpDirectories.backup().criu(c -> c.linkRemap(true)).build());
    Files.writeString(semaphore, "used");
    kill();
    restore();
    assertShared();
    Files.writeString(semaphore, "used");
    kill();
    restore();
    assertShared();
  }

  @Test
  void dump_leavesNoLinkInTheWayOfOthers_andComesBackAgainAndAgain() throws IOException {
    site.dump(workload.identity(), DumpDirectories.dump().criu(c -> c.linkRemap(true)).build());
    assertEquals(List.of("sem.name"), names());
    restore();
    assertShared();
    kill();
    restore();
    assertShared();
  }

  @Test
  void restore_whereTheFileIsGone_makesItAnewWithItsName() throws IOException {
    Files.setAttribute(semaphore, "unix:mode", 0640);
    site.dump(workload.identity(), DumpDirectories.dump().criu(c -> c.linkRemap(true)).build());
    Files.delete(semaphore);
    restore();
    assertShared();
    assertEquals(0640, (int) Files.getAttribute(semaphore, "unix:mode") & 07777);
  }

  @Test
  void restore_whereSomethingElseHasTheName_leavesItAlone() throws IOException {
    site.dump(workload.identity(), DumpDirectories.dump().criu(c -> c.linkRemap(true)).build());
    Path link = new TreeReader(site.images()).linkRemaps().get(0);
    Files.writeString(link, "else");
    GpuCheckpointException e = assertThrows(GpuCheckpointException.class, this::restore);
    assertTrue(
        e.getMessage().contains(link + " is not the file that the image needs"), e.getMessage());
    assertEquals("else", read(link));
    Files.delete(link);
    restore();
    assertShared();
  }

  @Test
  void restore_thatFails_leavesNothing() throws IOException {
    site.dump(workload.identity(), DumpDirectories.dump().criu(c -> c.linkRemap(true)).build());
    Files.delete(semaphore);
    Files.delete(site.images("mm-").get(0));
    assertThrows(GpuCheckpointException.class, this::restore);
    assertEquals(List.of(), names());
  }

  /** A partial link would prevent the next restore. */
  @Test
  void restore_thatCannotPutItBack_leavesNothing() throws IOException {
    site.dump(workload.identity(), DumpDirectories.dump().criu(c -> c.linkRemap(true)).build());
    Files.delete(semaphore);
    Path content = site.images("held-link-0").get(0);
    Path away = Files.move(content, directory.resolve("away"));
    assertThrows(GpuCheckpointException.class, this::restore);
    assertEquals(List.of(), names());
    Files.move(away, content);
    restore();
    assertShared();
  }

  @Test
  void restore_onAnInterruptedThread_putsItBack() throws IOException {
    site.dump(workload.identity(), DumpDirectories.dump().criu(c -> c.linkRemap(true)).build());
    Files.delete(semaphore);
    Thread.currentThread().interrupt();
    try {
      restore();
    } finally {
      assertTrue(Thread.interrupted(), "the flag stays");
    }
    assertShared();
  }
}
