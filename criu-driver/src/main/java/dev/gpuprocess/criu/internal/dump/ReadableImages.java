package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Checks that we can read what a CRIU of another user has written while the process still exists:
 * images that cannot be read cannot be verified.
 */
final class ReadableImages {

  private ReadableImages() {}

  /** Vetoes the dump if something cannot be read. */
  static void require(String subject, DumpRequest request) {
    if (CurrentUser.isRoot()) {
      return;
    }
    try {
      for (Path file : DurableFiles.list(request.images())) {
        if (!Files.isReadable(file)) {
          throw new ImageException(
              ImageException.Reason.DIRECTORY,
              "%s was refused, the process runs on: CRIU wrote %s as another user, and this user cannot read it: have CRIU run with umask 022 ('Defaults!CRIU umask=0022, umask_override' for sudo)"
                  .formatted(subject, file),
              Failure.of("dump", request.process().pid()));
        }
      }
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "%s was refused, the process runs on: the images cannot be listed: %s"
              .formatted(subject, e.getMessage()),
          Failure.of("dump", request.process().pid()),
          e);
    }
  }
}
