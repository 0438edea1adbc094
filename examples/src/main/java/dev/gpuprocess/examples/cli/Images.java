package dev.gpuprocess.examples.cli;

import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.StoredImage;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The fields of images that several commands print. */
final class Images {

  private Images() {}

  /** Prints an image that was made. */
  static void made(Session session, ProcessImage image) {
    made(session, image, session.seconds());
  }

  /** Prints one of several images, which took so many seconds. */
  static void made(Session session, ProcessImage image, double seconds) {
    Map<String, @Nullable Object> value = value(image.directory(), image.manifest());
    value.put("seconds", seconds);
    image
        .snapshotTimes()
        .ifPresent(times -> value.put("pauseSeconds", times.pause().toNanos() / 1e9));
    value.put("lost", image.manifest().lost());
    value.put("steps", Words.steps(image.steps()));
    session
        .output()
        .result(
            value,
            "process %s: image %s, %s, %s%s%s"
                .formatted(
                    image.manifest().pid(),
                    image.directory(),
                    Output.bytes(image.manifest().bytes()),
                    Words.seconds(seconds),
                    image
                        .snapshotTimes()
                        .map(
                            times -> ", paused for " + Words.seconds(times.pause().toNanos() / 1e9))
                        .orElse(""),
                    image.manifest().lost().isEmpty()
                        ? ""
                        : ", without " + String.join(", ", image.manifest().lost())));
  }

  static Map<String, @Nullable Object> value(Path directory, Manifest manifest) {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("image", directory);
    value.put("pid", manifest.pid());
    value.put("label", manifest.label());
    value.put("created", manifest.created());
    value.put("sizeBytes", manifest.bytes());
    value.put("problem", null);
    return value;
  }

  static Map<String, @Nullable Object> value(StoredImage image) {
    if (image.manifest() != null) {
      return value(image.directory(), image.manifest());
    }
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("image", image.directory());
    value.put("pid", null);
    value.put("label", null);
    value.put("created", null);
    value.put("sizeBytes", null);
    value.put("problem", image.problem());
    return value;
  }
}
