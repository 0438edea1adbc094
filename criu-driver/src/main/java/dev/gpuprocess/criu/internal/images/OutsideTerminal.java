package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.proto.Images.tty_info_entry;
import dev.gpuprocess.criu.proto.Images.winsize_entry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A pseudo-terminal that a dumped tree had open, and whose master another process had: that of a
 * shell, of tmux or of sshd.
 *
 * @param session the session of which it was the controlling terminal
 * @param rows its height
 * @param columns its width
 */
public record OutsideTerminal(int session, int rows, int columns) {

  private static final int PTY = 1;
  private static final int FIRST_SLAVE_MAJOR = 136;
  private static final int LAST_SLAVE_MAJOR = 143;
  private static final int USUAL_ROWS = 24;
  private static final int USUAL_COLUMNS = 80;

  /**
   * Finds the terminal of a tree; CRIU dumps at most one.
   *
   * @param images the directory of the image files
   */
  public static Optional<OutsideTerminal> in(Path images) throws IOException {
    Path file = images.resolve("tty-info.img");
    if (!Files.exists(file)) {
      return Optional.empty();
    }
    List<tty_info_entry> terminals =
        ImageFileReader.all(file, ImageFileReader.Kind.TTY_INFO, tty_info_entry.parser());
    Set<Integer> inside =
        terminals.stream()
            .filter(each -> each.getType() == PTY && !isSlave(each))
            .map(each -> each.getPty().getIndex())
            .collect(Collectors.toSet());
    return terminals.stream()
        .filter(each -> each.getType() == PTY && isSlave(each))
        .filter(each -> !inside.contains(each.getPty().getIndex()))
        .map(OutsideTerminal::of)
        .findFirst();
  }

  private static boolean isSlave(tty_info_entry terminal) {
    int major = terminal.getRdev() >> 8 & 0xfff;
    return major >= FIRST_SLAVE_MAJOR && major <= LAST_SLAVE_MAJOR;
  }

  private static OutsideTerminal of(tty_info_entry terminal) {
    winsize_entry size = terminal.getWinsize();
    boolean known = size.getWsRow() > 0 && size.getWsCol() > 0;
    return new OutsideTerminal(
        terminal.getSid(),
        known ? size.getWsRow() & 0xffff : USUAL_ROWS,
        known ? size.getWsCol() & 0xffff : USUAL_COLUMNS);
  }
}
