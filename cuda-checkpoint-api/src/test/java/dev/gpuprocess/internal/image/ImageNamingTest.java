package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.image.ImageNaming.Place;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.state.StateDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Names and times of new images are in the order in which they are made. */
class ImageNamingTest {

  private static final int PID = 4242;
  private static final Instant NOON = Instant.parse("2026-11-21T12:00:00Z");

  @TempDir Path temporary;
  private Path images;
  private Instant clock = NOON;

  @BeforeEach
  void makeDirectory() throws IOException {
    images = Files.createDirectory(temporary.resolve("images"));
  }

  private ImageNaming naming() {
    InstantSource now = () -> clock;
    return new ImageNaming(
        new StoreDirectory(images, null),
        new StateDirectory(temporary.resolve("state")),
        now,
        Duration.ofSeconds(30));
  }

  private Place next() {
    return naming().next(PID);
  }

  private static String name(Place place) {
    return place.directory().getFileName().toString();
  }

  @Test
  void aNameSaysWhenAndOfWhom() {
    clock = NOON.plusNanos(123_456_789);
    Place place = next();
    assertEquals("20261121-120000-123-4242", name(place));
    assertEquals(images.resolve("20261121-120000-123-4242"), place.directory());
    assertEquals(NOON.plusMillis(123), place.created());
  }

  @Test
  void aClockThatStepsBackChangesNoOrder() {
    TestImages.publishAt(images.resolve("first"), NOON.plusNanos(1));
    List<Place> places = new ArrayList<>();
    for (int hours : new int[] {-1, 0, -24, 1, -2}) {
      clock = NOON.plus(Duration.ofHours(hours));
      Place place = next();
      TestImages.publishAt(place.directory(), place.created());
      places.add(place);
    }
    assertEquals(NOON.plusMillis(1), places.get(0).created());
    assertEquals(NOON.plus(Duration.ofHours(1)), places.get(3).created());
    assertEquals(places.get(3).created().plusMillis(1), places.get(4).created());
    assertEquals(
        places.stream().sorted(Comparator.comparing(ImageNamingTest::name)).toList(), places);
    List<Path> newestFirst =
        new StoreDirectory(images, null)
            .read().images().stream().map(ImageDirectory::path).toList();
    assertEquals(places.get(4).directory(), newestFirst.get(0));
    assertEquals(images.resolve("first"), newestFirst.get(5));
  }

  @Test
  void whatIsBeingWrittenHasItsNameAlready() throws IOException {
    Place first = next();
    Path half = images.resolve(StagingName.of(TestImages.PROCESS).text());
    Files.createDirectory(half);
    clock = NOON.minusSeconds(1);
    assertEquals(first.created().plusMillis(1), next().created());
    Files.delete(half);
    assertEquals(clock, next().created(), "an image that was never made counts for nothing");
  }

  @Test
  void aNameThatIsTakenIsNotGiven() throws IOException {
    Files.createDirectory(images.resolve("20261121-120000-000-4242"));
    Files.createFile(images.resolve("20261121-120000-001-4242"));
    assertEquals("20261121-120000-002-4242", name(next()));
  }

  @Test
  void aTimeThatIsNoTimeIsSaid() {
    TestImages.publishAt(images.resolve("future"), Instant.MAX);
    ImageException e =
        assertReason(ImageException.class, ImageException.Reason.DIRECTORY, this::next);
    TestImages.says(e, "move that image away");
  }

  @Test
  void aDirectoryThatIsGoneIsNotMadeAgain() throws IOException {
    Files.delete(images);
    ImageException e =
        assertReason(ImageException.class, ImageException.Reason.DIRECTORY, this::next);
    TestImages.says(e, "no longer exists");
    assertTrue(Files.notExists(images));
  }

  @Test
  void severalControllersGetNamesOfTheirOwn() throws Exception {
    Files.createDirectory(images.resolve(StagingName.of(TestImages.PROCESS).text()));
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try {
      List<Callable<Place>> work = new ArrayList<>();
      for (int i = 0; i < 12; i++) {
        work.add(() -> naming().next(PID));
      }
      List<Path> given = new ArrayList<>();
      for (Future<Place> place : threads.invokeAll(work)) {
        given.add(place.get().directory());
      }
      assertEquals(12, new HashSet<>(given).size(), given::toString);
    } finally {
      threads.shutdownNow();
    }
  }
}
