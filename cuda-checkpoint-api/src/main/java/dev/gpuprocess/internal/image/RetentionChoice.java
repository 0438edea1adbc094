package dev.gpuprocess.internal.image;

import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.options.RetentionPolicy.OnePer;
import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Chooses the images that a policy keeps. */
final class RetentionChoice {

  private RetentionChoice() {}

  /**
   * Chooses.
   *
   * @param images of one process, newest first
   * @return those that stay
   */
  static Set<ImageDirectory> kept(RetentionPolicy policy, List<ImageDirectory> images) {
    Set<ImageDirectory> kept =
        new HashSet<>(images.subList(0, Math.min(images.size(), policy.keepLast())));
    policy.intervals().forEach(rule -> kept.addAll(onePer(rule, images)));
    return kept;
  }

  private static Set<ImageDirectory> onePer(OnePer rule, List<ImageDirectory> images) {
    Set<ImageDirectory> kept = new HashSet<>();
    Set<Long> intervals = new HashSet<>();
    for (ImageDirectory image : images) {
      Instant created = image.manifest().created();
      Duration age = Duration.between(created, images.get(0).manifest().created());
      long interval = Math.floorDiv(created.getEpochSecond(), rule.interval().toSeconds());
      if (age.compareTo(rule.span()) < 0 && intervals.add(interval)) {
        kept.add(image);
      }
    }
    return kept;
  }
}
