package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.Retention;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.state.Journal;
import java.nio.file.Path;
import java.util.List;

/**
 * Removes older images of a process that lie beside a newer one, journalled so that a recovery can
 * finish. Takes no lock of the process: to read whole images takes long, and it must be possible to
 * bring the process back meanwhile. Images that are in use are held by whoever uses them.
 */
public final class OlderImages {

  private OlderImages() {}

  /**
   * Removes them.
   *
   * @param keep how many stay, the newest one included
   * @return what was removed, oldest first
   */
  public static List<Path> remove(EngineContext context, ImageDirectory newest, int keep) {
    // What is being removed has the name of a half image for a while, and a recovery must find it.
    Journal journal = new Journal(context.state());
    ImageEntry entry = journal.writeImage(newest.manifest().pid(), newest.path(), null);
    try {
      return new Retention(newest, context.imageKey()).keep(keep);
    } finally {
      entry.close();
    }
  }
}
