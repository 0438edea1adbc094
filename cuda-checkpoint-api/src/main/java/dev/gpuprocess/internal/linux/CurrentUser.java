package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import org.jspecify.annotations.Nullable;

/**
 * The user that this JVM runs as ({@code /proc/self/status}).
 *
 * @param realUid whose process this is
 * @param effectiveUid whose rights it has, and to whom the files that it makes belong
 */
public record CurrentUser(int realUid, int effectiveUid) {

  /** Does not change while this JVM runs; null until it was read. */
  private static volatile @Nullable CurrentUser known;

  /** Whether this JVM has root's rights; also when that cannot be read, as more is checked then. */
  public static boolean isRoot() {
    try {
      return get().effectiveUid == 0;
    } catch (IOException | ProcessUnreadableException e) {
      return true;
    }
  }

  /**
   * Reads it, once.
   *
   * @throws IOException when /proc is not mounted
   */
  public static CurrentUser get() throws IOException {
    CurrentUser user = known;
    if (user == null) {
      String[] ids =
          ProcFs.status(ProcessHandle.current().pid()).getOrDefault("Uid", "").split("\\s+");
      if (ids.length < 2) {
        throw new IOException("/proc/self/status does not tell the user of this process");
      }
      user = new CurrentUser(Integer.parseUnsignedInt(ids[0]), Integer.parseUnsignedInt(ids[1]));
      known = user;
    }
    return user;
  }
}
