package dev.gpuprocess.internal.memory;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.PassedDescriptor;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A process that maps files of others where a controller expects a save file, at any moment: none
 * of them is opened for writing, cut or given a name.
 */
@RequiresRoot("traces the process")
class ExchangedMappingTest {

  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final Path IN_MEMORY = Path.of("/dev/shm");

  private static final int BYTES = 1 << 20;
  private static final int MAPPED = 1 << 16;

  private static final int READ_WRITE = 3;
  private static final int SHARED = 0x1;
  private static final int SHARED_FIXED = 0x11;
  private static final int PRIVATE_FIXED = 0x12;

  @TempDir Path directory;
  private SimulatedDriver machine;
  private Pattern hostile;
  private ProcessIdentity process;

  @BeforeEach
  void start() {
    machine = SimulatedDriver.create();
    hostile = Pattern.launch(1).on(machine).notOurChild().start();
    process = ProcessIdentity.of(hostile.pid()).orElseThrow();
  }

  @AfterEach
  void stop() {
    hostile.close();
    machine.close();
  }

  private long map(long address, int descriptor, long bytes, int protection, int flags)
      throws IOException, UntraceableException {
    return RemoteCalls.borrow(
        process,
        PATIENCE,
        thread -> {
          try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
            return thread.call(
                SystemCall.MMAP, address, bytes, protection, flags, passed.number(), 0);
          }
        });
  }

  private List<Mapping> saved(NamelessFile... journalled) {
    return SaveFiles.mappings(process, List.of(journalled).stream().map(NamelessFile::id).toList());
  }

  private static void fill(Path file) throws IOException {
    try (RandomAccessFile written = Descriptors.readAndWrite(file)) {
      written.write(new byte[BYTES - 1]);
      written.write(7);
    }
  }

  private static void assertWhole(NamelessFile file) throws IOException {
    FileNode now = FileNode.of(file.descriptor());
    assertEquals(BYTES, now.bytes());
    assertEquals(0, now.links());
    byte[] content = Files.readAllBytes(file.path());
    assertEquals(7, content[BYTES - 1]);
  }

  /** A process of the same owner has given its save file away, by a descriptor. */
  @Test
  void theSaveFileOfASibling_isNoneOfThisProcess() throws IOException, UntraceableException {
    try (NamelessFile own = NamelessFile.create(IN_MEMORY, BYTES);
        NamelessFile sibling = NamelessFile.create(IN_MEMORY, BYTES)) {
      fill(sibling.path());
      long here = map(0, own.descriptor(), MAPPED, READ_WRITE, SHARED);
      long unused = map(0, sibling.descriptor(), MAPPED, READ_WRITE, SHARED);
      List<Mapping> found = saved(own);
      assertEquals(List.of(here), found.stream().map(Mapping::start).toList());
      try (SaveFiles files = SaveFiles.open(process, found, 1)) {
        files.name();
      }
      assertEquals(MAPPED, Files.size(own.path()), "what is not mapped is free");
      assertWhole(sibling);
    }
  }

  @Test
  void theSaveFileOfASibling_exchangedForItsOwn_isLeftAlone()
      throws IOException, UntraceableException {
    try (NamelessFile own = NamelessFile.create(IN_MEMORY, BYTES);
        NamelessFile sibling = NamelessFile.create(IN_MEMORY, BYTES)) {
      fill(sibling.path());
      long here = map(0, own.descriptor(), MAPPED, READ_WRITE, SHARED);
      List<Mapping> found = saved(own);
      assertEquals(
          here, map(here, sibling.descriptor(), MAPPED, READ_WRITE, SHARED_FIXED), "exchanged");
      assertRefused(found, "has exchanged the mapping");
      assertWhole(sibling);
    }
  }

  /** A file of root's that the process may only read. */
  @Test
  void aFileThatItMayOnlyRead_isLeftAlone() throws IOException, UntraceableException {
    Path passwords = Files.write(directory.resolve("#12 (deleted)"), new byte[BYTES]);
    try (NamelessFile own = NamelessFile.create(IN_MEMORY, BYTES)) {
      long here = map(0, own.descriptor(), MAPPED, READ_WRITE, SHARED);
      List<Mapping> found = saved(own);
      int readable = Descriptors.openToRead(passwords);
      try {
        long there = map(here, readable, MAPPED, READ_WRITE, PRIVATE_FIXED);
        assertEquals(here, there);
      } finally {
        Descriptors.close(readable);
      }
      assertEquals(List.of(), saved(own), "its name is no proof");
      assertRefused(found, "has exchanged the mapping");
      assertArrayEquals(new byte[BYTES], Files.readAllBytes(passwords));
      assertEquals(1, Files.getAttribute(passwords, "unix:nlink"));
    }
  }

  /** The owner of a directory has given the file a name by a descriptor. */
  @Test
  void aFileWithAName_isLeftAlone() throws IOException, UntraceableException {
    Path name = IN_MEMORY.resolve("gpuprocess-test-" + process.pid());
    try (NamelessFile own = NamelessFile.create(IN_MEMORY, BYTES)) {
      fill(own.path());
      long unused = map(0, own.descriptor(), MAPPED, READ_WRITE, SHARED);
      List<Mapping> found = saved(own);
      NamelessFile.link(own.descriptor(), name);
      assertRefused(found, "is not of this library");
      assertEquals(BYTES, Files.size(own.path()));
    } finally {
      Files.deleteIfExists(name);
    }
  }

  /** Otherwise root makes the file as long as the process chooses. */
  @Test
  void moreThanThereIs_isNotDumped() throws IOException, UntraceableException {
    try (NamelessFile own = NamelessFile.create(IN_MEMORY, BYTES)) {
      long unused = map(0, own.descriptor(), 1L << 40, READ_WRITE, SHARED);
      assertRefused(saved(own), "maps more than there is");
      assertEquals(BYTES, Files.size(own.path()));
    }
  }

  private void assertRefused(List<Mapping> found, String why) {
    assertEquals(1, found.size());
    IOException e =
        assertThrows(IOException.class, () -> SaveFiles.open(process, found, 1).close());
    String message = String.valueOf(e.getMessage());
    assertTrue(message.contains(why), message);
  }
}
