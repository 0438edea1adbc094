package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import java.io.IOException;
import org.jspecify.annotations.Nullable;

/**
 * The user that this JVM runs as ({@code /proc/self/status}).
 *
 * @param realUid the user who started this process
 * @param effectiveUid the user whose rights it has and who owns the files that it creates
 */
public record CurrentUser(int realUid, int effectiveUid) {

  /** Constant while this JVM runs; null until it was read. */
  private static volatile @Nullable CurrentUser known;

  /**
   * Returns whether this JVM has root's rights; true, which has more checked, if that is unknown.
   */
  public static boolean isRoot() {
    try {
      return get().effectiveUid == 0;
    } catch (IOException | ProcessUnreadableException e) {
      return true;
    }
  }

  /**
   * Returns the user, which is read once.
   *
   * @throws IOException when /proc is not mounted
   */
  public static CurrentUser get() throws IOException {
    CurrentUser user = known;
    if (user == null) {
      String[] ids =
          ProcFs.status(ProcessHandle.current().pid()).getOrDefault("Uid", "").split("\\s+");
      if (ids.length < 2) {
        throw new IOException("/proc/self/status does not show the user of this process");
      }
      user = new CurrentUser(Integer.parseUnsignedInt(ids[0]), Integer.parseUnsignedInt(ids[1]));
      known = user;
    }
    return user;
  }
}
