package dev.gpuprocess.criu.internal.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Gives CRIU up if its log keeps growing, before the disk is full. */
public final class LogLimit implements Conversation.Watch {

  private static final long LIMIT = 1L << 30;

  private final Path log;
  private final long limit;

  public LogLimit(Path log) {
    this(log, LIMIT);
  }

  public LogLimit(Path log, long limit) {
    this.log = log;
    this.limit = limit;
  }

  @Override
  public void look() throws GivenUpException {
    long size;
    try {
      size = Files.size(log);
    } catch (IOException notThereYet) {
      return;
    }
    if (size > limit) {
      throw GivenUpException.flooding(size);
    }
  }
}
