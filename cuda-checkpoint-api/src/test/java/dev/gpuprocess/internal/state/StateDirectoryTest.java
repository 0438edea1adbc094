package dev.gpuprocess.internal.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.ErrorText;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.linux.ProcessKey;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The state directory: its locks, and its owner. */
class StateDirectoryTest {

  @TempDir Path parent;

  private StateDirectory state() {
    return new StateDirectory(parent.resolve("state"));
  }

  private NamedLock lock(StateDirectory state) throws IOException {
    return state.tryLock("gpu-0", "resume").orElseThrow();
  }

  @Test
  void refusesAHeldLockAndNamesItsHolder() throws IOException {
    StateDirectory state = state();
    try (NamedLock lock = lock(state)) {
      lock.note("first");
      assertEquals(Optional.empty(), state.tryLock("gpu-0", "suspend"));
      assertEquals(
          Optional.empty(), state.lock("gpu-0", "suspend", Duration.ofMillis(30)), "in time");
      LockHolder holder = state.holder("gpu-0").orElseThrow();
      assertEquals(new LockHolder(ProcessKey.self(), "resume", holder.since(), false), holder);
      assertEquals(Optional.empty(), state.holder("gpu-1"));
    }
    assertEquals(Optional.empty(), state.holder("gpu-0"));
    assertEquals("first", state.note("gpu-0"));
    try (NamedLock again = lock(state)) {
      assertEquals("first", again.note());
    }
  }

  @Test
  void createsALockFileAgainThatWasRemovedWhileHeld() throws IOException {
    StateDirectory state = state();
    NamedLock lock = lock(state);
    lock.note("of one that is gone");
    lock.closeAndForget();
    try (NamedLock again = lock(state)) {
      assertEquals("", again.note());
      assertEquals(Optional.empty(), state.tryLock("gpu-0", "suspend"));
    }
  }

  @Test
  @OutsideUse("D3")
  void onlyTheOwnerCanReadItsFiles() throws IOException {
    lock(state()).close();
    for (String made : new String[] {"state", "state/locks.d", "state/locks.d/gpu-0"}) {
      String mode =
          PosixFilePermissions.toString(Files.getPosixFilePermissions(parent.resolve(made)));
      assertEquals(made.endsWith("gpu-0") ? "rw-------" : "rwx------", mode, made);
    }
  }

  private void assertRefused(String reason) {
    FileSystemException refused =
        assertThrows(FileSystemException.class, () -> state().tryLock("gpu-0", "resume"));
    StateDirectoryException told = state().unusable(refused, "resume", 1);
    assertTrue(told.getMessage().contains(reason), told.getMessage());
    assertTrue(told.getMessage().contains("GPUPROCESS_STATE_DIR"), told.getMessage());
  }

  @Test
  @OutsideUse("A17")
  void refusesALinkAndWritesNothing() throws IOException {
    Path victim = Files.createDirectory(parent.resolve("victim"));
    Files.createSymbolicLink(state().path(), victim);
    assertRefused("is a symbolic link");
    assertFalse(Files.exists(victim.resolve("locks.d")));
    Files.delete(victim);
    assertRefused("is a symbolic link");
  }

  @Test
  @OutsideUse("D3")
  void refusesADirectoryThatOthersCanWrite() throws IOException {
    Files.createDirectory(state().path());
    Files.setPosixFilePermissions(state().path(), PosixFilePermissions.fromString("rwxrwxrwx"));
    assertRefused("can be written by others");
  }

  @Test
  @OutsideUse("D3")
  void refusesADirectoryBelowOneThatOthersCanWriteUnlessSticky() throws IOException {
    Files.createDirectory(state().path());
    Files.setPosixFilePermissions(parent, PosixFilePermissions.fromString("rwxrwxrwx"));
    assertRefused("who could replace what is in it");
    Files.setAttribute(parent, "unix:mode", 01777);
    lock(state()).close();
  }

  @Test
  @OutsideUse("A17")
  void refusesADirectoryOfAnotherUser() throws IOException {
    Files.createDirectory(state().path());
    assumeTrue((Integer) Files.getAttribute(parent, "unix:uid") == 0, "only root gives files away");
    Files.setAttribute(state().path(), "unix:uid", 54_321);
    assertRefused("belongs to user 54321");
  }

  @ParameterizedTest
  @CsvSource({"size=64k, is full", "'size=4m,nr_inodes=1', has no inodes left"})
  @OutsideUse("A17")
  void refusesAFullFileSystemAndReportsIt(String options, String expected) throws IOException {
    Path disk = Files.createDirectory(parent.resolve("disk"));
    try (TmpFs full = TmpFs.mount(disk, options)) {
      StateDirectory state = new StateDirectory(full.point());
      Files.setPosixFilePermissions(disk, PosixFilePermissions.fromString("rwx------"));
      if (expected.equals("is full")) {
        fill(disk.resolve("filler"));
      }
      String obstacle = state.obstacle().orElse("none");
      assertTrue(obstacle.contains(expected), obstacle);
      IOException refused = assertThrows(IOException.class, () -> state.tryLock("gpu-0", "resume"));
      assertTrue(refused.getMessage().contains(ErrorText.ENOSPC), refused.getMessage());
    }
  }

  private static void fill(Path file) throws IOException {
    try (OutputStream out = Files.newOutputStream(file)) {
      while (true) {
        out.write(new byte[1 << 12]);
      }
    } catch (IOException full) {
      assertTrue(full.getMessage().contains(ErrorText.ENOSPC), full.getMessage());
    }
  }

  @Test
  @OutsideUse("A17")
  void refusesALockFileThatIsAPipeAtOnce() throws Exception {
    lock(state()).close();
    Path file = state().path().resolve("locks.d/gpu-0");
    Files.delete(file);
    ProgramRun.of("mkfifo", file.toString()).succeed();
    assertRefused("is not a regular file");
  }

  @Test
  @OutsideUse("A17")
  void doesNotFollowALockFileThatIsALink() throws Exception {
    lock(state()).close();
    Path file = state().path().resolve("locks.d/gpu-0");
    Path victim = Files.writeString(parent.resolve("victim"), "precious");
    Files.delete(file);
    Files.createSymbolicLink(file, victim);
    assertThrows(FileSystemException.class, () -> state().tryLock("gpu-0", "resume"));
    assertEquals("precious", Files.readString(victim));
  }

  @Test
  void errorsReadAsASentence() throws IOException {
    StateDirectory state = state();
    String itself = state.path().toString();
    assertEquals(
        "Read-only file system",
        state.explain(new FileSystemException(itself, null, "Read-only file system")));
    assertEquals(
        "it is a symbolic link",
        state.explain(new FileSystemException(itself, null, "is a symbolic link")));
    assertEquals("/x: is full", state.explain(new FileSystemException("/x", null, "is full")));
  }
}
