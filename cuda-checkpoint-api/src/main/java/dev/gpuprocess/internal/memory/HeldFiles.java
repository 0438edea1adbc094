package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.FileWriters;
import dev.gpuprocess.internal.linux.MappedFile;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The save files of suspended processes, which this JVM holds from the checkpoint to the resume.
 * Then the files are cut to nothing, so that their memory is free although processes may still map
 * them or have them open: a process can duplicate a mapping by {@code mremap}, and its threads can
 * copy a descriptor while it is passed. The files of a process that has ended are cut too. A file
 * that a dump still reads is cut after that, and a file that is in an image is never cut. Safe for
 * use by several threads.
 */
public final class HeldFiles {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The interval at which ended processes are looked for. */
  private static final long WATCH_NANOS = 250_000_000;

  /** Guarded by itself. */
  private static final Map<FileId, HeldFile> ALL = new HashMap<>();

  /** Whether the thread runs that finds ended processes; guarded by {@link #ALL}. */
  private static boolean isWatched;

  private HeldFiles() {}

  /** A file, guarded by {@link #ALL}. */
  private static final class HeldFile {

    private final ProcessIdentity process;
    private final int descriptor;
    private int readers;

    /** Whether the process needs it no more. */
    private boolean isOver;

    private HeldFile(ProcessIdentity process, int descriptor) {
      this.process = process;
      this.descriptor = descriptor;
    }
  }

  /**
   * Holds the files in which the driver has saved the memory of a process. A file that cannot be
   * held, for want of descriptors, is found again by {@link #find}. The files of an earlier
   * checkpoint are cut: another controller, or a tool, has resumed the process since.
   */
  public static void hold(ProcessIdentity process, List<NamelessFile> files) {
    end(process, ids(files), HeldFiles::cut);
    for (NamelessFile each : files) {
      try {
        add(process, each.id(), Descriptors.openToRead(each.path()));
      } catch (IOException e) {
        LOG.debug("a save file of process {} is not held", process.pid(), e);
      }
    }
  }

  private static Set<FileId> ids(List<NamelessFile> files) {
    Set<FileId> ids = new HashSet<>();
    for (NamelessFile each : files) {
      ids.add(each.id());
    }
    return ids;
  }

  /**
   * Holds the files that a process maps, for the case that another controller has prepared them. To
   * be called before the driver reads them.
   *
   * @param journalled the files that a controller has prepared for the process
   */
  public static void find(ProcessIdentity process, Collection<FileId> journalled) {
    Set<FileId> missing = new HashSet<>(journalled);
    synchronized (ALL) {
      missing.removeAll(ALL.keySet());
    }
    if (missing.isEmpty()) {
      return;
    }
    try {
      for (Mapping each : Mapping.of(process.pid(), isOneOf(missing))) {
        if (missing.contains(each.file())) {
          find(process, each, missing);
        }
      }
    } catch (ProcessUnreadableException e) {
      LOG.debug("the save files of process {} are not found", process.pid(), e);
    }
  }

  private static Predicate<Mapping> isOneOf(Set<FileId> files) {
    return mapping -> mapping.inode() != 0 && files.contains(mapping.file());
  }

  private static void find(ProcessIdentity process, Mapping mapping, Set<FileId> missing) {
    try (MappedFile file = MappedFile.hold(process.pid(), mapping)) {
      FileId id = file.node().id();
      // The process may have exchanged the mapping since.
      if (missing.contains(id) && SaveFile.isOurs(file.node())) {
        add(process, id, Descriptors.openToRead(file.path()));
        missing.remove(id);
      }
    } catch (IOException e) {
      LOG.debug("a save file of process {} is not held", process.pid(), e);
    }
  }

  private static void add(ProcessIdentity process, FileId id, int descriptor) {
    synchronized (ALL) {
      if (ALL.putIfAbsent(id, new HeldFile(process, descriptor)) != null) {
        Descriptors.close(descriptor);
      } else if (!isWatched) {
        startWatch();
      }
    }
  }

  /** Under the monitor of {@link #ALL}. */
  private static void startWatch() {
    try {
      Threads.daemon("gpuprocess save files", HeldFiles::watch).start();
      isWatched = true;
    } catch (OutOfMemoryError noThread) {
      LOG.warn(
          "no thread can be started: the save files of processes that end are cut after the next checkpoint");
    }
  }

  /** Ends when no file is held. */
  private static void watch() {
    try (Polling polling = new Polling(Durations.LONGEST, WATCH_NANOS)) {
      while (polling.pause()) {
        List<HeldFile> all;
        synchronized (ALL) {
          if (ALL.isEmpty()) {
            isWatched = false;
            return;
          }
          all = List.copyOf(ALL.values());
        }
        all.stream()
            .map(each -> each.process)
            .distinct()
            .filter(HeldFiles::hasEnded)
            .forEach(process -> end(process, HeldFiles::cutIfWritable));
      }
    }
  }

  private static boolean hasEnded(ProcessIdentity process) {
    try {
      return !process.isAlive();
    } catch (ProcessUnreadableException e) {
      return false;
    }
  }

  /**
   * Cuts the files of a process that is back on its GPU, its own and those that it maps still. A
   * thread that touches what it has kept of them gets SIGBUS. To be called when the driver has
   * unlocked the process, and while no other verb can suspend it.
   *
   * @param journalled the files that a controller has prepared for the process
   */
  public static void cut(ProcessIdentity process, Collection<FileId> journalled) {
    find(process, journalled);
    end(process, HeldFiles::cut);
  }

  /** Does something with the files of a process that needs them no more, and closes them. */
  private static void end(ProcessIdentity process, FileAction action) {
    end(process, Set.of(), action);
  }

  private static void end(ProcessIdentity process, Set<FileId> needed, FileAction action) {
    List<HeldFile> over = new ArrayList<>();
    synchronized (ALL) {
      ALL.entrySet()
          .removeIf(
              entry -> {
                HeldFile file = entry.getValue();
                boolean isIts = file.process.equals(process) && !needed.contains(entry.getKey());
                file.isOver |= isIts;
                boolean isUnread = isIts && file.readers <= 0;
                if (isUnread) {
                  over.add(file);
                }
                return isUnread;
              });
    }
    over.forEach(file -> close(file, action));
  }

  private interface FileAction {

    void on(int descriptor) throws IOException;
  }

  private static void cut(int descriptor) throws IOException {
    FileNode node = FileNode.of(descriptor);
    if (node.links() == 0 && node.bytes() > 0) {
      try (BlockFile written = BlockFile.open(ProcFs.descriptor(descriptor), false)) {
        written.truncate(0);
      }
    }
  }

  /**
   * Cuts a file whose process has ended. A file that processes only read may have been in an image
   * of another controller, and hold the memory of a restored process.
   */
  private static void cutIfWritable(int descriptor) throws IOException {
    if (!FileWriters.areNone(ProcFs.descriptor(descriptor))) {
      cut(descriptor);
    }
  }

  private static void close(HeldFile file, FileAction action) {
    try {
      action.on(file.descriptor);
    } catch (IOException e) {
      LOG.warn(
          "a save file of process {} could not be cut, and uses memory until no process maps it: {}",
          file.process.pid(),
          e.toString());
    } finally {
      Descriptors.close(file.descriptor);
    }
  }

  /** Keeps a file whole until {@link #endReading}. */
  static void beginReading(FileId id) {
    synchronized (ALL) {
      HeldFile file = ALL.get(id);
      if (file != null) {
        file.readers++;
      }
    }
  }

  /** Cuts a file whose process needs it no more, if this was the last reader. */
  static void endReading(FileId id) {
    HeldFile file;
    synchronized (ALL) {
      file = ALL.get(id);
      if (file == null) {
        return;
      }
      file.readers--;
      if (!file.isOver || file.readers > 0) {
        return;
      }
      ALL.remove(id);
    }
    close(file, hasEnded(file.process) ? HeldFiles::cutIfWritable : HeldFiles::cut);
  }

  /**
   * Releases a file that is not cut: it belongs to an image from now on, or the process has other
   * memory instead.
   */
  public static void release(FileId id) {
    HeldFile file;
    synchronized (ALL) {
      file = ALL.remove(id);
    }
    if (file != null) {
      Descriptors.close(file.descriptor);
    }
  }
}
