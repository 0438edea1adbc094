package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Leftovers;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.remote.PassedDescriptor;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The save files of a suspended process, on their way into an image. For CRIU each file gets a
 * name, in a directory of mode 0700 that is named after its maker, and is mapped privately at the
 * same address, so that the restored process never writes to the file of the image. The process has
 * its bytes at every moment. For one thread.
 */
public final class SaveFiles implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Duration BORROWING = Duration.ofSeconds(30);

  private static final String PURPOSE = "memory";
  private static final String PREFIX = "gpuprocess-" + PURPOSE + "-";

  private static final int MAP_PRIVATE = 0x2;
  private static final int MADV_DONTFORK = 10;

  private final ProcessIdentity process;
  private final List<SaveFile> files;

  /** The directories that were created for names. */
  private final List<Path> directories = new ArrayList<>();

  /** The names by which CRIU finds the files. */
  private final Map<SaveFile, Path> names = new HashMap<>();

  /** The files that were linked into the image. */
  private final Set<SaveFile> linked = new HashSet<>();

  /** The files that stay whole until this is closed. */
  private final List<FileId> read = new ArrayList<>();

  private SaveFiles(ProcessIdentity process, List<SaveFile> files) {
    this.process = process;
    this.files = files;
  }

  /**
   * Finds the mappings of save files in a process. A file without a name is one if a controller has
   * journalled it for this process before the checkpoint. A name, an address or a directory proves
   * nothing: the process chooses them, and maps the save file of another one if that gives it away.
   *
   * @param journalled the files that the controller of the checkpoint prepared
   * @throws dev.gpuprocess.internal.proc.ProcessUnreadableException if its mappings may not be read
   */
  public static List<Mapping> mappings(ProcessIdentity process, List<FileId> journalled) {
    return SaveFileMappings.of(process.pid(), journalled::contains);
  }

  /**
   * Opens the save files of a process.
   *
   * @param mappings as {@link #mappings} finds them
   * @param first the number of the first file in the image
   * @throws IOException if one of the files cannot be opened
   */
  public static SaveFiles open(ProcessIdentity process, List<Mapping> mappings, int first)
      throws IOException {
    Map<FileId, List<Mapping>> byFile = new LinkedHashMap<>();
    for (Mapping each : mappings) {
      byFile.computeIfAbsent(each.file(), none -> new ArrayList<>()).add(each);
    }
    List<SaveFile> files = new ArrayList<>();
    try {
      for (List<Mapping> ofFile : byFile.values()) {
        files.add(SaveFile.open(process, first + files.size(), ofFile));
      }
      SaveFiles opened = new SaveFiles(process, files);
      opened.keepWhole();
      return opened;
    } catch (IOException | RuntimeException | Error e) {
      files.forEach(SaveFile::close);
      throw e;
    }
  }

  /** The process of a snapshot is resumed while its files are copied. */
  private void keepWhole() {
    List<FileId> nameless = files.stream().filter(SaveFile::isNameless).map(SaveFile::id).toList();
    HeldFiles.find(process, nameless);
    nameless.forEach(HeldFiles::beginReading);
    read.addAll(nameless);
  }

  /** Returns how many files there are. */
  public int count() {
    return files.size();
  }

  /** Returns why CRIU cannot find the files; empty if it can. */
  public Optional<String> obstacle() {
    try {
      if (!namespace(ProcFs.file(process.pid())).equals(namespace(ProcFs.self()))) {
        return Optional.of("its mount namespace does not contain them");
      }
      List<Mapping> mapped = files.stream().flatMap(each -> each.mappings().stream()).toList();
      if (SaveFileMappings.haveOwnPages(process.pid(), mapped)) {
        return Optional.of("the process has written to memory that is mapped from them");
      }
      for (SaveFile file : files) {
        if (!file.isNameless()
            && (SaveFileMappings.isDeleted(file.shown())
                || !Files.exists(NativePath.of(file.shown())))) {
          return Optional.of(file.shown() + " has lost its name");
        }
      }
      return Optional.empty();
    } catch (IOException e) {
      return Optional.of("its mount namespace cannot be read: " + e);
    }
  }

  private static String namespace(Path process) throws IOException {
    return Files.readSymbolicLink(process.resolve("ns/mnt")).toString();
  }

  /**
   * Returns whether all files can be linked into an image, and need not be copied.
   *
   * @param image a directory of the image
   * @throws IOException if that cannot be read
   */
  public boolean areLinkable(Path image) throws IOException {
    for (SaveFile file : files) {
      if (!file.isNameless() || !file.isOn(image)) {
        return false;
      }
    }
    return true;
  }

  /**
   * Links the files that {@link #name} has named into an image, if that is on the same file system
   * and no process can write to the file any more: {@link #name} has left the process only the
   * right to read it. To be called after {@link #name} and before {@link #hide}.
   *
   * @param directory of memory files of the image
   * @return the files that belong to the image from now on
   */
  public List<FileId> linkInto(Path directory) {
    for (SaveFile file : files) {
      if (file.isNameless() && file.isLinkedInto(directory)) {
        linked.add(file);
        HeldFiles.release(file.id());
      }
    }
    return linked.stream().map(SaveFile::id).toList();
  }

  /**
   * Puts the files into an image. The checksums of linked files are computed. Other files are
   * copied, past the page cache if possible, and synced.
   *
   * @param directory of memory files of the image
   * @return the files, with their checksums
   * @throws IOException if one cannot be read or written
   */
  public List<ChecksummedFile> putInto(Path directory, Checksum checksum, WorkLimit limit)
      throws IOException {
    List<ChecksummedFile> done = new ArrayList<>();
    for (SaveFile file : files) {
      done.add(
          linked.contains(file)
              ? file.sums(checksum, limit)
              : file.copyTo(directory, checksum, limit));
    }
    return done;
  }

  /**
   * Names the files that have no name, and maps them privately by these names.
   *
   * @throws UntraceableException if no call can be made in the process
   * @throws IOException if a file cannot be named or mapped; the process still has its bytes
   */
  public void name() throws IOException, UntraceableException {
    Map<Path, Path> made = new HashMap<>();
    for (SaveFile file : files) {
      if (file.isNameless()) {
        file.trim();
        Path place = placeOf(file);
        Path directory = made.get(place);
        if (directory == null) {
          directory = makeDirectory(place);
          made.put(place, directory);
        }
        Path name = directory.resolve(file.path());
        NamelessFile.link(file.file().descriptor(), name);
        names.put(file, name);
      } else {
        names.put(file, NativePath.of(file.shown()));
      }
    }
    if (!made.isEmpty()) {
      RemoteCalls.borrow(
          process,
          BORROWING,
          thread -> {
            for (SaveFile file : files) {
              if (file.isNameless()) {
                mapPrivately(thread, file);
              }
            }
            return true;
          });
    }
  }

  /** Returns the tmpfs of a file that the kernel shows as {@code /place/#12 (deleted)}. */
  private static Path placeOf(SaveFile file) {
    String shown = file.shown();
    return NativePath.of(shown.substring(0, Math.max(1, shown.lastIndexOf("/#"))));
  }

  private Path makeDirectory(Path place) throws IOException {
    removeAbandoned(place);
    Path made = place.toRealPath().resolve(DirectoryMaker.temporaryName(PURPOSE));
    DirectoryTrust.requirePlaceFor(made);
    DurableFiles.createDirectory(made);
    directories.add(made);
    DurableFiles.createDirectory(made.resolve(MemoryFile.DIRECTORY));
    return made;
  }

  private void mapPrivately(RemoteThread thread, SaveFile file)
      throws IOException, UntraceableException {
    int descriptor = Descriptors.openToRead(Objects.requireNonNull(names.get(file)));
    try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
      for (Mapping each : file.mappings()) {
        long bytes = each.addresses().bytes();
        // Elsewhere first: an mmap that fails for want of memory may have unmapped what was there.
        long fresh =
            thread.call(
                SystemCall.MMAP,
                0,
                bytes,
                Libc.PROT_READ_WRITE,
                MAP_PRIVATE,
                passed.number(),
                each.offset());
        thread.callAtExit(SystemCall.MUNMAP, fresh, bytes);
        thread.call(SystemCall.MADVISE, fresh, bytes, MADV_DONTFORK);
        OwnMemory.move(thread, fresh, each.addresses());
      }
    } finally {
      Descriptors.close(descriptor);
    }
  }

  /** Returns the entries of the manifest. To be called after {@link #name}. */
  public List<MemoryFile> described() {
    return files.stream()
        .flatMap(file -> Optional.ofNullable(names.get(file)).map(file::described).stream())
        .toList();
  }

  /** Removes the names, after CRIU has read them; {@link #close} tries again. */
  public void hide() {
    directories.removeIf(
        directory -> {
          try {
            DurableFiles.delete(directory);
            return true;
          } catch (IOException e) {
            LOG.debug("{} was not removed, and is removed at the end of the dump", directory, e);
            return false;
          }
        });
  }

  /** Closes the files. The process keeps its mappings. */
  @Override
  public void close() {
    hide();
    for (Path left : directories) {
      Leftovers.add(left, () -> DurableFiles.delete(left));
      LOG.warn("{} could not be removed now, and uses memory until a later dump removes it", left);
    }
    files.forEach(SaveFile::close);
    read.forEach(HeldFiles::endReading);
    read.clear();
  }

  /**
   * Removes the directories of dead controllers, and those that this JVM could not remove before.
   *
   * @param place the parent of the directories
   */
  public static void removeAbandoned(Path place) {
    Leftovers.removeIn(place);
    try {
      for (Path entry : DurableFiles.list(place)) {
        if (isAbandoned(entry)) {
          DurableFiles.delete(entry);
        }
      }
    } catch (NoSuchFileException none) {
      LOG.debug("there is no {}", place);
    } catch (IOException e) {
      LOG.warn("unused names in {} could not be removed: {}", place, e.toString());
    }
  }

  private static boolean isAbandoned(Path entry) throws IOException {
    String name = String.valueOf(entry.getFileName());
    Optional<DirectoryMaker> maker =
        name.startsWith(PREFIX) ? DirectoryMaker.ofTemporary(name) : Optional.empty();
    if (maker.isEmpty() || !maker.get().hasEnded()) {
      return false;
    }
    Optional<Ownership> owner = Ownership.ofDirectory(entry);
    return owner.isPresent() && owner.get().isOursToRemove();
  }
}
