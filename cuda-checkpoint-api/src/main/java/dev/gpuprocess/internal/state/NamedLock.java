package dev.gpuprocess.internal.state;

import dev.gpuprocess.internal.call.BoundedDirectory;
import dev.gpuprocess.internal.linux.LockedFile;
import java.io.IOException;
import java.util.List;
import java.util.Optional;

/**
 * A lock of the state directory that this JVM holds until it releases the lock or dies. The lock's
 * file names the holder and keeps a note for the next holder. Safe for use by several threads.
 */
public final class NamedLock implements AutoCloseable {

  /**
   * The content of a lock's file: a line about the holder, and a note for the next holder.
   *
   * @param holder the holder that wrote it; empty if that is not readable
   * @param note one line; else empty
   */
  record Content(Optional<LockHolder> holder, String note) {

    static Content parse(String text) {
      List<String> lines = text.lines().toList();
      return new Content(
          lines.isEmpty() ? Optional.empty() : LockHolder.parse(lines.get(0)),
          lines.size() < 2 ? "" : lines.get(1));
    }

    String text() {
      return holder.map(LockHolder::text).orElse("") + "\n" + note + "\n";
    }
  }

  private final BoundedDirectory directory;
  private final LockedFile file;
  private volatile LockHolder holder;
  private volatile String note;

  private NamedLock(BoundedDirectory directory, LockedFile file, LockHolder holder, String note) {
    this.directory = directory;
    this.file = file;
    this.holder = holder;
    this.note = note;
  }

  /** Writes the holder into a locked file; releases the file if that fails. */
  static NamedLock of(BoundedDirectory directory, LockedFile file, LockHolder holder)
      throws IOException {
    try {
      String note = Content.parse(file.read()).note();
      file.write(new Content(Optional.of(holder), note).text());
      return new NamedLock(directory, file, holder, note);
    } catch (IOException | RuntimeException | Error e) {
      file.release();
      throw e;
    }
  }

  /** Returns the last note, of this holder or an earlier one; else empty. */
  public String note() {
    return note;
  }

  /** Writes a note of one line, which stays when the lock is released. */
  public void note(String line) throws IOException {
    directory.run("write a lock", () -> file.write(new Content(Optional.of(holder), line).text()));
    note = line;
  }

  /** Replaces the line about the holder, and keeps the note. */
  void sign(LockHolder now) throws IOException {
    holder = now;
    note(note);
  }

  /** Releases the lock. Does nothing if it is released. */
  @Override
  public void close() {
    directory.runEvenLate("release a lock", file::release);
  }

  /** Releases the lock and removes its file with the note. For a resource that is gone for good. */
  public void closeAndForget() {
    directory.runEvenLate("remove a lock", file::remove);
  }
}
