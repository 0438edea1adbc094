package dev.gpuprocess.internal.lock;

import dev.gpuprocess.internal.linux.ProcessSearch;
import java.io.IOException;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The lock files of processes that have ended. */
public final class StaleLocks {

  private static final Pattern LOCK_NAME = Pattern.compile("(\\d{1,18})-(\\d{1,9})");

  private StaleLocks() {}

  /**
   * Removes them, except those that somebody holds.
   *
   * @throws IOException when the directory cannot or must not be used
   */
  public static void remove(StateDirectory state) throws IOException {
    for (String name : state.lockNames()) {
      Matcher of = LOCK_NAME.matcher(name);
      if (of.matches() && hasEnded(of, state.note(name))) {
        state.tryLock(name, "tidy up").ifPresent(NamedLock::closeAndForget);
      }
    }
  }

  /** The note tells which process that had the pid it was, if that process was ever moved. */
  private static boolean hasEnded(Matcher name, String note) {
    Optional<Generation> last = Generation.parse(note);
    return last.map(Generation::isOfThisBoot).orElse(true)
        ? ProcessSearch.find(
                Long.parseLong(name.group(1)),
                Integer.parseInt(name.group(2)),
                start -> last.isEmpty() || last.get().startTicks() == start)
            .isGone()
        : true;
  }
}
