package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.Retention;
import java.nio.file.Path;
import java.util.List;

/**
 * Removes older images of a process that lie beside a newer one, journalled so that a recovery can
 * finish.
 */
public final class OlderImages {

  private static final String VERB = "remove older images";

  private OlderImages() {}

  /**
   * Removes them.
   *
   * @param keep how many stay, the newest one included
   * @return what was removed, oldest first
   */
  public static List<Path> remove(EngineContext context, ImageDirectory newest, int keep) {
    ProcessLock lock = ImageLock.take(context, ImageLock.key(newest.manifest()), VERB);
    try {
      // What is being removed has the name of a half image for a while, and a recovery must find
      // it.
      Journal journal = new Journal(context.state());
      ProcessKey anyone = ImageLock.key(newest.manifest());
      journal.write(
          JournalEntry.of(
              anyone, newest.manifest().pid(), VERB, Holdings.UNKNOWN, newest.path(), null));
      try {
        return new Retention(newest, context.imageKey()).keep(keep);
      } finally {
        journal.remove(anyone);
      }
    } finally {
      lock.release();
    }
  }
}
