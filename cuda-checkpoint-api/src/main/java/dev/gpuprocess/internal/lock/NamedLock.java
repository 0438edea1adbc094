package dev.gpuprocess.internal.lock;

import dev.gpuprocess.internal.call.BoundedDirectory;
import dev.gpuprocess.internal.linux.LockedFile;
import java.io.IOException;
import java.util.Optional;

/**
 * A lock of the state directory that this JVM holds until it releases the lock or dies. The lock's
 * file names the holder and keeps a note for the next one. Safe for use by several threads.
 */
public final class NamedLock implements AutoCloseable {

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

  /** Writes the holder into a locked file, and releases the file when that fails. */
  static NamedLock of(BoundedDirectory directory, LockedFile file, LockHolder holder)
      throws IOException {
    try {
      String note = LockRecord.parse(file.read()).note();
      file.write(new LockRecord(Optional.of(holder), note).text());
      return new NamedLock(directory, file, holder, note);
    } catch (IOException | RuntimeException | Error e) {
      file.release();
      throw e;
    }
  }

  /** What was noted last, by this holder or one before; empty when nothing was. */
  public String note() {
    return note;
  }

  /** Notes one line, which stays when the lock is released. */
  public void note(String line) throws IOException {
    directory.run(
        "write a lock", () -> file.write(new LockRecord(Optional.of(holder), line).text()));
    note = line;
  }

  /** Replaces what is written of the holder, and keeps the note. */
  void sign(LockHolder now) throws IOException {
    holder = now;
    note(note);
  }

  /** Releases the lock. Does nothing the second time. */
  @Override
  public void close() {
    directory.runEvenLate("release a lock", file::release);
  }

  /** Releases the lock and removes its file with the note: what was locked is gone for good. */
  public void closeAndForget() {
    directory.runEvenLate("remove a lock", file::remove);
  }
}
