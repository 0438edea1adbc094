package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.options.RetentionPolicy.OnePer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes images that newer ones supersede. Images belong together if they are of the same process,
 * by pid and command line. The newest image that verifies always stays, and so do images that are
 * in use or do not verify. An image that is being removed becomes a partial image first, which a
 * journal entry names. No lock of a process is taken. Safe for use by several threads.
 */
public final class Retention {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final StoreDirectory store;
  private final Journal journal;

  public Retention(StoreDirectory store, Journal journal) {
    this.store = store;
    this.journal = journal;
  }

  private record Group(int pid, List<String> commandLine) {
    static Group of(ImageDirectory image) {
      return new Group(image.manifest().pid(), image.manifest().commandLine());
    }
  }

  /**
   * Removes the images that a policy does not keep, oldest first. An image that a process maps
   * stays.
   *
   * @throws ImageException when the directory cannot be read, or too many files are open
   * @throws OperationCancelledException when it was cancelled
   */
  public PruneReport prune(
      RetentionPolicy policy, VerificationCache verification, BooleanSupplier isCancelled) {
    AbandonedImage.removeIn(store.path());
    List<ImageDirectory> images = store.read().images();
    verification.retain(images.stream().map(ImageDirectory::path).toList());
    Map<Group, List<ImageDirectory>> groups = new LinkedHashMap<>();
    for (ImageDirectory image : images) {
      groups.computeIfAbsent(Group.of(image), none -> new ArrayList<>()).add(image);
    }
    List<Path> removed = new ArrayList<>();
    Map<Path, String> spared = new LinkedHashMap<>();
    for (List<ImageDirectory> group : groups.values()) {
      prune(policy, verification, group, removed, spared, isCancelled);
    }
    return new PruneReport(removed, spared);
  }

  /** Prunes the images of one process, which are given newest first. */
  private void prune(
      RetentionPolicy policy,
      VerificationCache verification,
      List<ImageDirectory> images,
      List<Path> removed,
      Map<Path, String> spared,
      BooleanSupplier isCancelled) {
    if (kept(policy, images).size() == images.size()) {
      return;
    }
    List<ImageDirectory> sound = new ArrayList<>(images);
    while (!sound.isEmpty()) {
      ImageDirectory newest = sound.get(0);
      requireNotCancelled(isCancelled, removed);
      Optional<ImageException> fault = verification.fault(newest, isCancelled);
      if (fault.isEmpty()) {
        break;
      }
      String why = String.valueOf(fault.get().getMessage());
      LOG.warn("{} neither counts nor is removed: {}", newest.path(), why);
      spared.put(newest.path(), "does not verify: " + why);
      sound.remove(0);
    }
    List<ImageDirectory> superseded = new ArrayList<>(sound);
    superseded.removeAll(kept(policy, sound));
    Collections.reverse(superseded);
    if (!superseded.isEmpty()) {
      ImageDirectory newest = sound.get(0);
      journalled(
          superseded,
          newest,
          image -> {
            requireNotCancelled(isCancelled, removed);
            try {
              Optional<String> obstacle = new ImageRemoval(image, store.key()).run();
              obstacle.ifPresent(why -> spared.put(image.path(), why));
              if (obstacle.isEmpty()) {
                LOG.info("{} is removed: {} supersedes it", image.path(), newest.path());
                removed.add(image.path());
              }
            } catch (IOException | ImageException e) {
              if (!isGone(image)) {
                spared.put(image.path(), "cannot be removed: " + e.getMessage());
              }
            }
          });
    }
  }

  private void requireNotCancelled(BooleanSupplier isCancelled, List<Path> removed) {
    if (isCancelled.getAsBoolean()) {
      throw new OperationCancelledException(
          "the prune of %s was cancelled when it had removed %s images: all others stay"
              .formatted(store.path(), removed.size()),
          Failure.of("prune", 0));
    }
  }

  /** Returns the images of one process, given newest first, that a policy keeps. */
  private static Set<ImageDirectory> kept(RetentionPolicy policy, List<ImageDirectory> images) {
    Set<ImageDirectory> kept =
        new HashSet<>(images.subList(0, Math.min(images.size(), policy.keepLast())));
    for (OnePer rule : policy.intervals()) {
      Set<Long> intervals = new HashSet<>();
      for (ImageDirectory image : images) {
        Instant created = image.manifest().created();
        Duration age = Duration.between(created, images.get(0).manifest().created());
        long interval = Math.floorDiv(created.getEpochSecond(), rule.interval().toSeconds());
        if (age.compareTo(rule.span()) < 0 && intervals.add(interval)) {
          kept.add(image);
        }
      }
    }
    return kept;
  }

  /**
   * Removes an image unless it is in use or was removed.
   *
   * @return the reason why it stays, as the end of a sentence about it
   * @throws ImageException when it cannot be removed
   */
  public Optional<String> remove(ImageDirectory image) {
    List<Optional<String>> outcome = new ArrayList<>();
    journalled(
        List.of(image),
        image,
        each -> {
          try {
            outcome.add(new ImageRemoval(each, store.key()).run());
          } catch (IOException | ImageException e) {
            if (!isGone(each)) {
              throw new ImageException(
                  ImageException.Reason.UNWRITABLE,
                  "%s cannot be removed: %s".formatted(each.path(), e.getMessage()),
                  Failure.of("remove", each.manifest().pid()),
                  e);
            }
            outcome.add(Optional.empty());
          }
        });
    return outcome.get(0);
  }

  private void journalled(
      List<ImageDirectory> superseded, ImageDirectory newest, Consumer<ImageDirectory> removal) {
    // An image has the name of a partial image while it is removed; a recovery must find it.
    ImageEntry entry = journal.writeImage(newest.manifest().pid(), newest.path(), null);
    try {
      superseded.forEach(removal);
    } finally {
      entry.close();
    }
  }

  /** Returns whether another controller has removed an image. */
  private static boolean isGone(ImageDirectory image) {
    return Files.notExists(image.path(), LinkOption.NOFOLLOW_LINKS);
  }
}
