package dev.gpuprocess.internal.lock;

import dev.gpuprocess.internal.os.LockedFile;
import java.io.IOException;

/**
 * A lock of the state directory that this JVM has, until it releases it or dies. Beside who has it,
 * its file keeps a note for whoever has the lock next, or looks.
 */
public final class HeldLock implements AutoCloseable {

  private final LockedFile file;
  private volatile LockHolder holder;
  private volatile String note;

  private HeldLock(LockedFile file, LockHolder holder, String note) {
    this.file = file;
    this.holder = holder;
    this.note = note;
  }

  /** Signs a locked file. */
  static HeldLock of(LockedFile file, LockHolder holder) throws IOException {
    try {
      HeldLock lock = new HeldLock(file, holder, noteIn(file.read()));
      lock.note(lock.note);
      return lock;
    } catch (IOException | RuntimeException | Error e) {
      file.release();
      throw e;
    }
  }

  /** What the last holder noted; empty when nobody did. */
  public String note() {
    return note;
  }

  /** Notes one line, which stays when the lock is released. */
  public void note(String line) throws IOException {
    file.write(holder.text() + "\n" + line + "\n");
    note = line;
  }

  /** Says something else of the holder, and keeps the note. */
  void sign(LockHolder now) throws IOException {
    holder = now;
    note(note);
  }

  static String noteIn(String record) {
    return record.lines().skip(1).findFirst().orElse("");
  }

  /** Lets others have the lock. Does nothing the second time. */
  @Override
  public void close() {
    file.release();
  }

  /** The same, and removes the file with its note: what it was about is gone for good. */
  public void closeAndForget() throws IOException {
    file.remove();
  }
}
