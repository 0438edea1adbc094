package dev.gpuprocess.survival;

import dev.gpuprocess.error.ProcessUnreadableException;
import java.util.Random;
import java.util.function.ObjIntConsumer;

/**
 * Kills CRIU now and then at a stage that it tells of. There it has nothing executed in the
 * process, which goes on when CRIU is gone, or is still in its image.
 */
record DyingCriu(Random random) implements ObjIntConsumer<String> {

  /** One of so many. */
  private static final int KILLED_OF = 30;

  @Override
  public void accept(String moment, int pid) {
    if (!moment.equals(WatchedCriu.MAY_KILL) && random.nextInt(KILLED_OF) == 0) {
      try {
        Signals.criuOf(pid).ifPresent(criu -> Signals.send(criu, Signals.KILL));
      } catch (ProcessUnreadableException e) {
        // No descriptors to look with: this one lives.
        return;
      }
    }
  }
}
