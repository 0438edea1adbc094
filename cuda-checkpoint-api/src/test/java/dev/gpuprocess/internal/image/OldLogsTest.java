package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Logs of failed dumps are removed, except recent ones. */
@NullUnmarked
@OutsideUse("D7")
class OldLogsTest {

  private static final int MANY = 100;
  private static final int LOOKS = 100;

  @TempDir Path temporary;

  private Path ours() throws IOException {
    Path made = temporary.resolve(DirectoryMaker.temporaryName("dump"));
    DurableFiles.createDirectory(made);
    return made;
  }

  /** A directory of an earlier process with the pid of this JVM. */
  private Path ofADeadMaker() throws IOException {
    String name = String.valueOf(ours().getFileName());
    ProcessIdentity self = DirectoryMaker.ofTemporary(name).orElseThrow().process();
    String other = name.replace("-" + self.startTicks() + "-", "-" + (self.startTicks() + 1) + "-");
    Path made = temporary.resolve(other);
    DurableFiles.createDirectory(made);
    return made;
  }

  private static Path named(Path directory, Duration ago) throws IOException {
    new LogDirectory(directory).keep();
    Files.setLastModifiedTime(
        directory.resolve(LogDirectory.KEPT), FileTime.from(Instant.now().minus(ago)));
    return directory;
  }

  @Test
  void whatADeadMakerLeftGoesAfterAnHour_whatIsAtWorkStays() throws IOException {
    Path atWork = ours();
    Path left = ofADeadMaker();
    Files.createFile(left.resolve("dump.log"));
    new OldLogs(temporary).removeOutdated();
    assertTrue(Files.exists(left), "a recovery may still need it");
    for (Path each : List.of(left, atWork)) {
      Files.setLastModifiedTime(each, FileTime.from(Instant.now().minus(Duration.ofMinutes(61))));
    }
    new OldLogs(temporary).removeOutdated();
    assertFalse(Files.exists(left));
    assertTrue(Files.exists(atWork));
  }

  @Test
  void namedOnesStayForADayAndTheNewestTenLonger() throws IOException {
    List<Path> old = new ArrayList<>();
    for (int hours = 25; hours < 40; hours++) {
      old.add(named(ours(), Duration.ofHours(hours)));
    }
    Path fresh = named(ofADeadMaker(), Duration.ofHours(23));
    new OldLogs(temporary).removeOutdated();
    assertTrue(Files.exists(fresh));
    assertEquals(9, old.stream().filter(Files::exists).count());
    assertTrue(old.subList(0, 9).stream().allMatch(Files::exists));
  }

  /** Otherwise a caller that retries every second would fill the disk. */
  @Test
  void ofManyTheNewestHundredStayForADay_othersForAnHour() throws IOException {
    List<Path> ofToday = new ArrayList<>();
    for (int minutes = 61; minutes < 61 + 2 * MANY; minutes++) {
      ofToday.add(named(ours(), Duration.ofMinutes(minutes)));
    }
    List<Path> ofThisHour = new ArrayList<>();
    for (int minutes = 1; minutes <= 50; minutes++) {
      ofThisHour.add(named(ours(), Duration.ofMinutes(minutes)));
    }
    new OldLogs(temporary).removeOutdated();
    assertTrue(ofThisHour.stream().allMatch(Files::exists));
    int left = MANY - ofThisHour.size();
    assertTrue(ofToday.subList(0, left).stream().allMatch(Files::exists));
    assertEquals(left, ofToday.stream().filter(Files::exists).count());
    ofThisHour.addAll(0, moreOfThisHour());
    new OldLogs(temporary).removeOutdated();
    assertTrue(ofThisHour.stream().allMatch(Files::exists));
    assertEquals(0, ofToday.stream().filter(Files::exists).count());
  }

  private List<Path> moreOfThisHour() throws IOException {
    List<Path> more = new ArrayList<>();
    for (int i = 0; i < MANY; i++) {
      more.add(named(ours(), Duration.ofSeconds(i)));
    }
    return more;
  }

  /**
   * Other JVMs may change the times: the sort of the JDK throws if a comparison is inconsistent.
   */
  @Test
  void namedOnesMayChangeWhileTheyAreOrdered() throws Exception {
    List<Path> named = new ArrayList<>();
    for (int i = 0; i < MANY; i++) {
      named.add(named(ours(), Duration.ofMinutes(i)));
    }
    CompletableFuture<Void> changing = new CompletableFuture<>();
    Thread other = new Thread(() -> changeUntilInterrupted(named, changing), "another JVM");
    other.start();
    try {
      for (int i = 0; i < LOOKS; i++) {
        new OldLogs(temporary).removeOutdated();
      }
    } finally {
      other.interrupt();
      other.join();
    }
    changing.get();
    assertEquals(MANY, named.stream().filter(Files::exists).count());
  }

  private static void changeUntilInterrupted(List<Path> named, CompletableFuture<Void> outcome) {
    Random random = new Random();
    try {
      while (!Thread.interrupted()) {
        Instant time = Instant.now().minusSeconds(random.nextInt(3_600));
        Path directory = named.get(random.nextInt(named.size()));
        Files.setLastModifiedTime(directory.resolve(LogDirectory.KEPT), FileTime.from(time));
      }
      outcome.complete(null);
    } catch (IOException | RuntimeException e) {
      outcome.completeExceptionally(e);
    }
  }

  @Test
  @RequiresRoot("gives files away")
  void directoriesOfOthersAndOtherDirectoriesStay() throws IOException {
    Path theirs = ofADeadMaker();
    Files.setAttribute(theirs, "unix:uid", 12_345);
    Path link =
        temporary.resolve(String.valueOf(ofADeadMaker().getFileName()).replace("dump", "x"));
    Path target = Files.createDirectory(temporary.resolve("target"));
    Files.createSymbolicLink(link, target);
    Path user = Files.createDirectory(temporary.resolve("gpuprocess-root"));
    new OldLogs(temporary).removeOutdated();
    assertTrue(Files.exists(theirs));
    assertTrue(Files.exists(target));
    assertTrue(Files.exists(user));
    Files.setAttribute(theirs, "unix:uid", 0);
  }

  /** A user got a warning for each directory of a root process. */
  @Test
  void whatRootLeftIsRootsToRemove() throws IOException {
    Ownership ofRoot = Ownership.of(Path.of("/usr"));
    assertTrue(ofRoot.isOurs());
    assertEquals(
        Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), ofRoot.isOursToRemove());
    assertTrue(Ownership.of(temporary).isOursToRemove());
  }
}
