package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.process.ProgramTrust;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * Looks whether what a CRIU of another user has written can be read by us, while the process is
 * still there: an image that nobody can look at is not known to be good.
 */
final class ReadableImages {

  private ReadableImages() {}

  /** Vetoes the dump when something cannot be read. */
  static void require(String subject, DumpRequest request) {
    if (ProgramTrust.weAreRoot()) {
      return;
    }
    try (Stream<Path> files = Files.list(request.images())) {
      files
          .filter(file -> !Files.isReadable(file))
          .findFirst()
          .ifPresent(
              file -> {
                throw new ImageDirectoryException(
                    "%s was refused, the process runs on: CRIU wrote %s as another user, who lets us not read it: let CRIU be run with umask 022 ('Defaults!CRIU umask=0022, umask_override' for sudo)"
                        .formatted(subject, file),
                    Failure.of("dump", request.process().pid()));
              });
    } catch (IOException e) {
      throw new ImageDirectoryException(
          "%s was refused, the process runs on: what CRIU has written cannot be looked at: %s"
              .formatted(subject, e.getMessage()),
          Failure.of("dump", request.process().pid()),
          e);
    }
  }
}
