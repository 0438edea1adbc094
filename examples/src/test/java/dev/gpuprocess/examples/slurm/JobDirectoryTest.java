package dev.gpuprocess.examples.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Directories of a job, some of them prepared by another user. */
class JobDirectoryTest {

  private static final int ANOTHER_USER = 65534;

  @TempDir Path images;
  private Path path = Path.of("");

  @BeforeEach
  void namePath() {
    path = images.resolve("lab-17");
  }

  private JobDirectory open(int restarts) {
    SlurmJob job = new SlurmJob("17", "lab-17", restarts, "node1", "low", List.of(), List.of());
    return JobDirectory.open(images, job, new ArrayList<>());
  }

  private static void setMode(Path file, String mode) throws IOException {
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
  }

  private static String mode(Path file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
  }

  private static void assertRefused(ImageException.Reason why, String remedy, Executable call) {
    ImageException refused = assertThrows(ImageException.class, call);
    assertEquals(why, refused.reason(), refused.getMessage());
    assertTrue(refused.getMessage().contains(remedy), refused.getMessage());
  }

  private static void assertNotTrusted(String remedy, Executable call) {
    assertRefused(ImageException.Reason.NOT_TRUSTED, remedy, call);
  }

  @Test
  void theUmaskOpensNothingToOthers() throws Exception {
    List<String> umask = List.of("sh", "-c", "umask 002; exec \"$@\"", "sh");
    TestJvm.assertEndsSaying(
        path.resolve("output").toString(),
        TestJvm.commandBy(umask, JobJvm.class, "open", images.toString()));
    assertEquals("rwx------", mode(path));
    assertEquals("rwx------", mode(path.resolve("images")));
    assertEquals("rw-------", mode(path.resolve("output")));
  }

  @Test
  void recordsOfAnEarlierRunAreRead() throws IOException {
    Files.createDirectories(path.resolve("images"));
    setMode(path, "rwxr-xr-x");
    Files.writeString(path.resolve("finished"), "7\n");
    setMode(path.resolve("finished"), "rw-r--r--");
    JobDirectory directory = open(1);
    assertEquals(OptionalInt.of(7), directory.finished());
    directory.recordFailedNodes(List.of("node1", "node2"));
    assertEquals(List.of("node1", "node2"), open(2).failedNodes());
    directory.clearFailedNodes();
    assertEquals(List.of(), directory.failedNodes());
  }

  /** As on a node where the shared disk is not mounted. */
  @Test
  void aRestartedJobWithoutTheDirectoryOfAllJobsIsRefused() throws IOException {
    Files.delete(images);
    assertRefused(ImageException.Reason.MISSING, "mount its disk", () -> open(1));
    assertFalse(Files.exists(images));
    assertEquals(OptionalInt.empty(), open(0).finished());
  }

  @Test
  void aLinkAtTheNewRecordIsNotFollowed() throws IOException {
    Path victim = Files.writeString(images.resolve("victim"), "precious");
    JobDirectory directory = open(0);
    Files.createSymbolicLink(path.resolve("finished.new"), victim);
    directory.recordFinished(3);
    assertEquals("precious", Files.readString(victim));
    assertEquals(OptionalInt.of(3), directory.finished());
    assertEquals("rw-------", mode(path.resolve("finished")));
  }

  @Test
  void aDirectoryThatOthersCanWriteIsRefused() throws IOException {
    Files.createDirectories(path.resolve("images"));
    Files.writeString(path.resolve("finished"), "0");
    setMode(path, "rwxrwxrwx");
    assertNotTrusted("chmod -R go-w", () -> open(1));
    setMode(path, "rwx------");
    setMode(path.resolve("images"), "rwxrwxr-x");
    assertNotTrusted("chmod -R go-w", () -> open(1));
    setMode(path.resolve("images"), "rwxr-xr-x");
    assertEquals(OptionalInt.of(0), open(1).finished());
  }

  @Test
  @RequiresRoot("gives a directory to another user")
  void aDirectoryOfAnotherUserIsRefused() throws IOException {
    Files.createDirectories(path.resolve("images"));
    setMode(path, "rwxr-xr-x");
    Files.writeString(path.resolve("finished"), "0");
    Files.setAttribute(path, "unix:uid", ANOTHER_USER);
    assertNotTrusted("name another directory with --images", () -> open(1));
  }

  /** As in a directory with the sticky bit: this user cannot move what another has made. */
  @Test
  @RequiresRoot("mounts a directory of another user")
  void aNameThatAnotherUserHasTakenDoesNotStopTheJob() throws IOException {
    Files.createDirectory(path);
    try (TmpFs taken = TmpFs.mount(path, "size=1m,uid=" + ANOTHER_USER)) {
      open(0).recordFinished(5);
      assertEquals(OptionalInt.of(5), open(1).finished());
      assertEquals(OptionalInt.empty(), open(0).finished(), "of another job with the same id");
      assertEquals(OptionalInt.empty(), open(1).finished());
      assertEquals(List.of(), entries(taken.point()));
      JobDirectory directory = open(1);
      directory.recordReady(1);
      assertTrue(directory.isReady("lab-17", 1));
      assertFalse(directory.isReady("lab-17", 2), "of another run");
      directory.recordFinished(6);
    }
    Files.delete(path);
    assertEquals(OptionalInt.of(6), open(1).finished(), "the other user has let the name go");
    assertFalse(Files.exists(path));
    assertEquals(
        List.of("lab-17.own", "lab-17.own"),
        entries(images).stream().map(name -> name.replaceAll("-\\p{XDigit}{16}.*", "")).toList());
  }

  private static List<String> entries(Path directory) throws IOException {
    try (Stream<Path> all = Files.list(directory)) {
      return all.map(each -> each.getFileName().toString()).sorted().toList();
    }
  }

  @Test
  void aDirectoryThatIsExchangedDuringTheRunIsRefused() throws IOException {
    JobDirectory directory = open(0);
    Files.move(path, images.resolve("moved"));
    Files.createDirectory(path);
    setMode(path, "rwxrwxrwx");
    assertNotTrusted("chmod -R go-w", () -> directory.recordFinished(0));
    assertNotTrusted("chmod -R go-w", directory::output);
  }

  @Test
  void linksInPlaceOfDirectoriesAreRefused() throws IOException {
    Path elsewhere = Files.createDirectory(images.resolve("elsewhere"));
    Files.createSymbolicLink(path, elsewhere);
    assertRefused(ImageException.Reason.DIRECTORY, "remove it", () -> open(1));
    Files.delete(path);
    Files.createDirectory(path);
    setMode(path, "rwx------");
    Files.createSymbolicLink(path.resolve("images"), elsewhere);
    assertRefused(ImageException.Reason.DIRECTORY, "remove it", () -> open(1));
  }

  @Test
  void theFirstRunMovesALinkThatLeadsNowhereAside() throws IOException {
    Files.createSymbolicLink(path, images.resolve("nowhere"));
    assertEquals(OptionalInt.empty(), open(0).finished());
  }

  @Test
  void onlySmallRegularRecordsAreRead() throws IOException {
    JobDirectory directory = open(0);
    Path finished = path.resolve("finished");
    ProgramRun.of("mkfifo", finished.toString()).succeed();
    assertUnreadable("is not a regular file", directory);
    Files.delete(finished);
    Files.createSymbolicLink(finished, Files.writeString(images.resolve("target"), "0"));
    assertUnreadable("cannot be opened", directory);
    Files.delete(finished);
    Files.writeString(finished, "0".repeat(5000));
    setMode(finished, "rw-------");
    assertUnreadable("has more than 4096 bytes", directory);
    Files.writeString(finished, "");
    assertRefused(ImageException.Reason.CORRUPT, "remove it", directory::finished);
    Files.writeString(finished, "0");
    setMode(finished, "rw-rw-rw-");
    assertNotTrusted("chmod -R go-w", directory::finished);
  }

  private static void assertUnreadable(String why, JobDirectory directory) {
    assertRefused(ImageException.Reason.UNREADABLE, why, directory::finished);
  }

  @Test
  void outputGoesToARegularFileOnly() throws IOException {
    Path victim = Files.writeString(images.resolve("victim"), "precious");
    JobDirectory directory = open(0);
    Files.createSymbolicLink(path.resolve("output"), victim);
    assertNotTrusted("remove it", directory::output);
    Files.delete(path.resolve("output"));
    assertEquals(path.resolve("output"), directory.output());
    assertEquals(path.resolve("output"), directory.output(), "it is there now");
  }
}
