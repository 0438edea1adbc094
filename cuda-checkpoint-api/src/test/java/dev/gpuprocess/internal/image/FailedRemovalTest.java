package dev.gpuprocess.internal.image;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Images that could not be removed, because the file system was read-only, are removed later. */
@RequiresRoot("mounts a file system")
class FailedRemovalTest {

  /** The operations that remove partial images beside an image. */
  private enum Sweep {
    NEXT_IMAGE,
    PRUNE,
    RECOVER
  }

  @TempDir Path directory;
  private Mount mount;

  @BeforeEach
  void mount() throws Exception {
    mount = Mount.tmpfs(directory.resolve("mount"), "64m");
  }

  @AfterEach
  void unmount() throws IOException {
    mount.close();
  }

  private Path partial() throws IOException {
    List<Path> partial =
        DurableFiles.list(mount.path()).stream()
            .filter(entry -> entry.toString().endsWith(".partial"))
            .toList();
    assertEquals(1, partial.size(), partial::toString);
    return partial.get(0);
  }

  /** Leaves the file system read-only, because the image is removed as soon as possible. */
  private Path failToRemoveAnImage() throws Exception {
    try (StagedImage staged =
        StagedImage.create(mount.path().resolve("failed"), TestImages.PROCESS, 0, null)) {
      TestImages.fill(staged.images(), new Random(1));
      mount.makeReadOnly();
    }
    return partial();
  }

  private StateDirectory state() {
    return new StateDirectory(directory.resolve("state"));
  }

  private Retention retention() {
    return new Retention(new StoreDirectory(mount.path(), null), new Journal(state()));
  }

  private void sweep(Sweep sweep) {
    switch (sweep) {
      case NEXT_IMAGE -> {
        Path next = mount.path().resolve("next");
        StagedImage.create(next, TestImages.PROCESS, 0, null).close();
      }
      case PRUNE ->
          retention().prune(RetentionPolicy.ofDefaults(), new VerificationCache(), () -> false);
      case RECOVER ->
          assertEquals(
              List.of(), GpuCheckpoints.builder().stateDirectory(state().path()).build().recover());
    }
  }

  @ParameterizedTest
  @EnumSource
  void imageThatCouldNotBeRemovedIsRemovedLater(Sweep sweep) throws Exception {
    ImageDirectory image = TestImages.publish(mount.path().resolve("image"), null);
    Path left = failToRemoveAnImage();
    mount.makeWritable();
    sweep(sweep);
    assertEquals(
        List.of(image.path()), DurableFiles.list(mount.path()), () -> left + " is still there");
    image.verify();
  }

  @Test
  void imageThatIsStillWrittenStays() throws Exception {
    Path left = failToRemoveAnImage();
    mount.makeWritable();
    try (StagedImage living =
        StagedImage.create(mount.path().resolve("living"), TestImages.PROCESS, 0, null)) {
      TestImages.fill(living.images(), new Random(1));
      Path staging = partial();
      assertNotEquals(left, staging);
      AbandonedImage.removeIn(mount.path());
      assertEquals(staging, partial());
      living.publish(TestImages::manifest).verify();
    }
  }

  @Test
  void entryOfAnImageStaysInTheJournalUntilItsDirectoryIsRemoved() throws Exception {
    Path left = failToRemoveAnImage();
    Journal journal = new Journal(state());
    Path image = mount.path().resolve("failed");
    journal.writeImage(TestImages.PROCESS.pid(), image, null).close();
    assertEquals(1, journal.entries().size());
    mount.makeWritable();
    AbandonedImage.removeIn(mount.path());
    assertEquals(List.of(), journal.entries(), left::toString);
    journal.writeImage(TestImages.PROCESS.pid(), image, null).close();
    assertEquals(List.of(), journal.entries());
  }

  @Test
  void imageThatCouldNotBeRemovedIsRemovedByItselfAndThenItsEntry() throws Exception {
    Path left = failToRemoveAnImage();
    Journal journal = new Journal(state());
    journal.writeImage(TestImages.PROCESS.pid(), mount.path().resolve("failed"), null).close();
    mount.makeWritable();
    await().atMost(30, SECONDS).until(() -> journal.entries().isEmpty());
    assertEquals(List.of(), DurableFiles.list(mount.path()), left::toString);
  }
}
