package dev.gpuprocess.criu;

import dev.gpuprocess.fixtures.ProgramRun;
import java.util.concurrent.ThreadLocalRandom;

/** A number that is neither a user nor a group of this machine. */
final class FreeId {

  private static final int LOWEST = 20_000;
  private static final int HIGHEST = 60_000;
  private static final int ATTEMPTS = 1000;

  private FreeId() {}

  static int choose() {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      int id = ThreadLocalRandom.current().nextInt(LOWEST, HIGHEST);
      if (isFree("passwd", id) && isFree("group", id)) {
        return id;
      }
    }
    throw new IllegalStateException("every id is in use");
  }

  private static boolean isFree(String database, int id) {
    return ProgramRun.of("getent", database, Integer.toString(id)).run().exit() != 0;
  }
}
