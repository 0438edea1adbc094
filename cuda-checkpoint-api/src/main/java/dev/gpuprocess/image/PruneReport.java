package dev.gpuprocess.image;

import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What {@link dev.gpuprocess.ImageStore#prune} did. Immutable.
 *
 * @param removed the images that are gone, oldest first
 * @param spared the images that stay although the policy does not ask for them, and why, as the end
 *     of a sentence about the image: those that are in use, and those that do not verify
 */
public record PruneReport(List<Path> removed, Map<Path, String> spared) {

  /** Copies both. */
  public PruneReport {
    removed = List.copyOf(removed);
    spared = Collections.unmodifiableMap(new LinkedHashMap<>(spared));
  }
}
