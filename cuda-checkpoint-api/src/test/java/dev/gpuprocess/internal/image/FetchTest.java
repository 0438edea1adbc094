package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A store fetches each image of another directory once. */
class FetchTest {

  private Path root;
  private Path original;
  private ImageDirectory image;
  private ImageStore store;
  private final List<Step> steps = new ArrayList<>();

  @BeforeEach
  void publish(@TempDir Path directory) throws IOException {
    root = directory;
    original = Files.createDirectory(root.resolve("shared")).resolve("20261121-job");
    image = TestImages.publish(original, null);
    store = settings().build().store(root.resolve("store"));
  }

  private GpuCheckpoints.Builder settings() {
    return GpuCheckpoints.builder()
        .stateDirectory(root.resolve("state"))
        .listener(
            new StepListener() {
              @Override
              public void finished(Step step) {
                steps.add(step);
              }
            });
  }

  private Path here() {
    return store.directory().resolve("20261121-job");
  }

  private static void flipABit(Path file) throws IOException {
    byte[] content = Files.readAllBytes(file);
    content[content.length / 2] ^= 4;
    Files.write(file, content);
  }

  @Test
  void anImageIsFetchedOnce() throws IOException {
    StoredImage fetched = store.fetch(original);
    assertEquals(here(), fetched.directory());
    assertEquals(List.of(fetched), store.list());
    store.verify(fetched);
    assertEquals(here(), store.newestThatVerifies().directory());
    assertEquals(List.of("fetch"), steps.stream().map(Step::name).toList());
    assertEquals(image.manifest().bytes(), steps.get(0).bytes());
    assertEquals(TestImages.PROCESS.pid(), steps.get(0).pid());

    // For example after a lost answer.
    flipABit(original.resolve("criu/pages-1.img"));
    assertEquals(fetched, store.fetch(original));
    assertEquals(1, steps.size(), "nothing was copied again");
    image = ImageDirectory.open(here());
    image.verify();
  }

  @Test
  void aFetchThatFailedIsContinued() throws IOException {
    flipABit(original.resolve("criu/pages-1.img"));
    assertReason(ImageException.class, ImageException.Reason.CORRUPT, () -> store.fetch(original));
    assertFalse(Files.exists(here()));
    assertReason(
        ImageException.class, ImageException.Reason.MISSING, () -> store.newestThatVerifies());
    flipABit(original.resolve("criu/pages-1.img"));
    store.verify(store.fetch(original));
    assertEquals("0 MiB were there already", steps.get(0).note());
    assertTrue(steps.get(0).bytes() < image.manifest().bytes(), steps::toString);
    assertEquals(1, store.list().size());
  }

  @Test
  void aCopyThatIsAlteredHereIsSaidToBe() throws IOException {
    store.fetch(original);
    flipABit(here().resolve("criu/pages-1.img"));
    ImageException e =
        assertReason(
            ImageException.class, ImageException.Reason.CORRUPT, () -> store.fetch(original));
    TestImages.says(e, here().toString());
  }

  @Test
  void anotherImageOfThatNameStays() throws IOException {
    TestImages.publishAt(here(), Instant.parse("2026-11-20T10:00:00Z"));
    ImageException e =
        assertReason(
            ImageException.class, ImageException.Reason.DIRECTORY, () -> store.fetch(original));
    TestImages.says(e, here().toString());
    ImageDirectory.open(here()).verify();
    assertEquals(1, store.list().size());
  }

  @Test
  void manyWhoFetchItAtOnceGetIt() {
    List<CompletableFuture<StoredImage>> all = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      ImageStore own = settings().build().store(store.directory());
      all.add(CompletableFuture.supplyAsync(() -> own.fetch(original)));
    }
    all.forEach(each -> assertEquals(here(), each.join().directory()));
    assertEquals(1, store.list().size(), "nothing else is left");
    store.verify(store.list().get(0));
  }

  @Test
  @RequiresRoot("gives files to another user")
  void whoCopiedItDoesNotMatterWithAKey() throws IOException {
    Path secret = root.resolve("key");
    ImageKey key = TestImages.key(secret, 5);
    Path signed = root.resolve("shared/signed");
    TestImages.publish(signed, key);
    for (Path each : List.of(signed, original)) {
      try (Stream<Path> all = Files.walk(each)) {
        for (Path file : all.toList()) {
          Files.setAttribute(file, "unix:uid", 65534);
        }
      }
    }
    assertReason(
        ImageException.class, ImageException.Reason.NOT_TRUSTED, () -> store.fetch(original));
    ImageStore keyed = settings().imageKey(secret).build().store(root.resolve("keyed"));
    assertReason(
        ImageException.class, ImageException.Reason.NOT_TRUSTED, () -> keyed.fetch(original));
    keyed.verify(keyed.fetch(signed));
    assertEquals(1, keyed.list().size());
  }

  @Test
  void aFetchIsCancelled() {
    Cancellation cancellation = new Cancellation();
    cancellation.cancel();
    assertThrows(OperationCancelledException.class, () -> store.fetch(original, cancellation));
    assertEquals(List.of(), store.list());
  }

  @Test
  void whatIsNoImageIsNotFetched() {
    assertReason(
        ImageException.class,
        ImageException.Reason.MISSING,
        () -> store.fetch(root.resolve("shared")));
    assertReason(
        ImageException.class,
        ImageException.Reason.MISSING,
        () -> store.fetch(root.resolve("nowhere")));
    assertFalse(Files.exists(store.directory()), "nothing was made");
  }

  @Test
  void anImageIsCopiedByItself() {
    ProcessImage opened = settings().build().open(original);
    Path place = root.resolve("elsewhere/copy");
    ProcessImage copy = opened.copyTo(place);
    copy.verify();
    assertEquals(place, copy.directory());
    assertEquals(opened.manifest(), copy.manifest());
    assertEquals(List.of("copy"), copy.steps().stream().map(Step::name).toList());
    Cancellation cancellation = new Cancellation();
    cancellation.cancel();
    assertThrows(
        OperationCancelledException.class,
        () -> opened.copyTo(root.resolve("elsewhere/other"), cancellation));
    assertThrows(OperationCancelledException.class, () -> opened.verify(cancellation));
    assertReason(ImageException.class, ImageException.Reason.DIRECTORY, () -> opened.copyTo(place));
  }
}
