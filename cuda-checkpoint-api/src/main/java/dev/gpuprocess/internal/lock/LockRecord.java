package dev.gpuprocess.internal.lock;

import java.util.List;
import java.util.Optional;

/**
 * What is in a lock's file: a line that says who holds it, and a note for the next holder.
 *
 * @param holder who wrote it; empty when that is not readable
 * @param note one line; empty when nothing was noted
 */
record LockRecord(Optional<LockHolder> holder, String note) {

  static LockRecord parse(String text) {
    List<String> lines = text.lines().toList();
    return new LockRecord(
        lines.isEmpty() ? Optional.empty() : LockHolder.parse(lines.get(0)),
        lines.size() < 2 ? "" : lines.get(1));
  }

  String text() {
    return holder.map(LockHolder::text).orElse("") + "\n" + note + "\n";
  }
}
