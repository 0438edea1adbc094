package dev.gpuprocess.internal.launch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The files that launched jobs need, installed when first needed. */
final class NativeFiles {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  static final String JOB = "job";
  static final String CUDA_CALL = "cuda-call";
  static final String FORK_HANDLER = "fork-handler.so";

  private static @Nullable Path directory;

  private NativeFiles() {}

  /**
   * The path of one. It is looked at each time: whoever cleans up may have removed it.
   *
   * @throws IOException when there is no place for it
   */
  static synchronized Path path(String name) throws IOException {
    Path known = directory;
    IOException why = new IOException("there is no home directory and no temporary one");
    for (Path candidate : known == null ? candidates() : new Path[] {known}) {
      try {
        NativeFile file = NativeFile.of(candidate, name);
        file.install();
        if (known == null && !Files.isWritable(candidate)) {
          // Installed earlier, on what is read-only now: the sockets of jobs are made there, too.
          why = new IOException(candidate + " cannot be written");
          continue;
        }
        if (file.isUsable() && isListable(candidate)) {
          directory = candidate;
          return file.path();
        }
        why =
            new IOException(
                "programs cannot be started from %s, as on a file system that is mounted noexec: set java.io.tmpdir to another directory"
                    .formatted(candidate));
      } catch (IOException e) {
        LOG.debug("jobs are not launched from {}", candidate, e);
        why = e;
      }
    }
    directory = null;
    throw why;
  }

  /** The home directory first: temporary files are removed when they are old. */
  private static Path[] candidates() {
    return Stream.of(
            at("user.home", ".cache/gpuprocess/native"),
            at("java.io.tmpdir", "gpuprocess-native-" + System.getProperty("user.name")))
        .flatMap(Optional::stream)
        .toArray(Path[]::new);
  }

  private static Optional<Path> at(String property, String below) {
    return Optional.ofNullable(System.getProperty(property))
        .map(Path::of)
        .filter(Path::isAbsolute)
        .map(above -> above.resolve(below));
  }

  /** {@code LD_PRELOAD} separates by these. */
  private static boolean isListable(Path path) {
    return path.toString().chars().noneMatch(each -> each == ' ' || each == ':');
  }
}
