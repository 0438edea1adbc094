package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes the images of a directory that a policy does not ask for, each process's (by pid and
 * command line) for itself. The newest image that verifies stays, and so does what is in use or
 * does not verify. Holds no lock of a process. For one thread.
 */
public final class StorePrune {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final StoreDirectory store;
  private final KnownImages known;
  private final Journal journal;
  private final List<Path> removed = new ArrayList<>();
  private final Map<Path, String> spared = new LinkedHashMap<>();

  /** Prepares; nothing is done yet. */
  public StorePrune(StoreDirectory store, KnownImages known, Journal journal) {
    this.store = store;
    this.known = known;
    this.journal = journal;
  }

  private record Whose(int pid, List<String> commandLine) {
    static Whose of(ImageDirectory image) {
      return new Whose(image.manifest().pid(), image.manifest().commandLine());
    }
  }

  /**
   * Removes them, oldest first.
   *
   * @throws ImageException when the directory cannot be read, or too many files are open
   */
  public PruneReport run(RetentionPolicy policy) {
    removeAbandoned();
    List<ImageDirectory> images = store.read().images();
    known.retain(images.stream().map(ImageDirectory::path).toList());
    Map<Whose, List<ImageDirectory>> byProcess = new LinkedHashMap<>();
    for (ImageDirectory image : images) {
      byProcess.computeIfAbsent(Whose.of(image), who -> new ArrayList<>()).add(image);
    }
    byProcess.values().forEach(each -> prune(policy, each));
    return new PruneReport(removed, spared);
  }

  private void removeAbandoned() {
    try {
      AbandonedImage.removeIn(store.path());
    } catch (ImageException e) {
      LOG.warn("partial images in {} stay: {}", store.path(), e.getMessage());
    }
  }

  /** Those of one process, newest first. */
  private void prune(RetentionPolicy policy, List<ImageDirectory> images) {
    if (RetentionChoice.kept(policy, images).size() == images.size()) {
      return;
    }
    List<ImageDirectory> sound = new ArrayList<>(images);
    while (!sound.isEmpty() && isDamaged(sound.get(0))) {
      sound.remove(0);
    }
    Set<ImageDirectory> kept = RetentionChoice.kept(policy, sound);
    List<ImageDirectory> superseded = new ArrayList<>(sound);
    superseded.removeAll(kept);
    Collections.reverse(superseded);
    if (!superseded.isEmpty()) {
      remove(superseded, sound.get(0));
    }
  }

  private boolean isDamaged(ImageDirectory image) {
    Optional<ImageException> fault = known.fault(image);
    fault.ifPresent(
        why -> {
          LOG.warn("{} neither counts nor is removed: {}", image.path(), why.getMessage());
          spared.put(image.path(), "does not verify: " + why.getMessage());
        });
    return fault.isPresent();
  }

  private void remove(List<ImageDirectory> superseded, ImageDirectory newest) {
    // What is being removed has the name of a half image for a while, and a recovery must find it.
    ImageEntry entry = journal.writeImage(newest.manifest().pid(), newest.path(), null);
    try {
      superseded.forEach(image -> remove(image, newest));
    } finally {
      entry.close();
    }
  }

  private void remove(ImageDirectory image, ImageDirectory newest) {
    Optional<String> inTheWay;
    try {
      inTheWay =
          ImageRemoval.of(image, store.key())
              .run(held -> MappingProcesses.of(held, image.manifest()));
    } catch (IOException | ImageException e) {
      if (Files.notExists(image.path(), LinkOption.NOFOLLOW_LINKS)) {
        return; // another controller was faster
      }
      inTheWay = Optional.of("cannot be removed: " + e.getMessage());
    }
    if (inTheWay.isPresent()) {
      spared.put(image.path(), inTheWay.get());
    } else {
      LOG.info("{} is removed: {} supersedes it", image.path(), newest.path());
      removed.add(image.path());
    }
  }
}
