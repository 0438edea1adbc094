package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.internal.linux.CurrentUser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A CRIU log. CRIU is killed if its log keeps growing, before the disk is full.
 *
 * @param path the file
 */
public record LogFile(Path path) implements Conversation.Watch {

  private static final long LIMIT = 1L << 30;

  /**
   * Removes an old log. CRIU creates a log that only its own user can read, so if that is root and
   * this JVM is not, an empty file is created here, into which CRIU writes.
   */
  public void create() throws IOException {
    Files.deleteIfExists(path);
    if (!CurrentUser.isRoot()) {
      Files.createFile(path);
    }
  }

  @Override
  public void look() throws GivenUpException {
    long size;
    try {
      size = Files.size(path);
    } catch (IOException notThereYet) {
      return;
    }
    if (size > LIMIT) {
      throw GivenUpException.flooding(size);
    }
  }
}
