package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.proto.Images.core_entry;
import dev.gpuprocess.criu.proto.Images.creds_entry;
import dev.gpuprocess.criu.proto.Images.fs_entry;
import dev.gpuprocess.criu.proto.Images.pstree_entry;
import dev.gpuprocess.criu.proto.Images.task_kobj_ids_entry;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.image.DumpedProcess.State;
import dev.gpuprocess.image.DumpedThread;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Reads the processes of a tree one by one. */
final class ProcessReader {

  private final Path images;
  private final long pageSize;
  private final FileTable files;
  private final MemoryReader.Segments segments;
  private final Set<Integer> threads = new HashSet<>();

  ProcessReader(Path images, long pageSize) throws IOException {
    this.images = images;
    this.pageSize = pageSize;
    this.files = new FileTable(images);
    this.segments = new MemoryReader.Segments(images, pageSize);
  }

  DumpedProcess read(pstree_entry entry) throws IOException {
    int pid = entry.getPid();
    core_entry core = core(images, pid);
    State state = state(core.getTc().getTaskState());
    creds_entry owner = core.getThreadCore().getCreds();
    DumpedProcess dead =
        new DumpedProcess(
            pid,
            entry.getPpid(),
            entry.getPgid(),
            entry.getSid(),
            state,
            core.getTc().getComm(),
            List.of(),
            "",
            "",
            owner.getUid(),
            owner.getGid(),
            List.of(),
            List.of(),
            List.of());
    return state == State.ALIVE || state == State.STOPPED ? alive(dead, entry, core) : dead;
  }

  private DumpedProcess alive(DumpedProcess known, pstree_entry entry, core_entry core)
      throws IOException {
    MemoryReader memory = new MemoryReader(images, known.pid(), pageSize, segments);
    Path directories = images.resolve("fs-" + known.pid() + ".img");
    fs_entry directory =
        ImageFileReader.only(directories, ImageFileReader.Kind.FS, fs_entry.parser());
    return new DumpedProcess(
        known.pid(),
        known.parent(),
        known.group(),
        known.session(),
        known.state(),
        known.name(),
        memory.commandLine(),
        files.path(memory.executable()),
        files.path(directory.getCwdId()),
        known.uid(),
        known.gid(),
        threads(entry),
        memory.byKind(),
        files.descriptors(ids(known.pid(), core).getFilesId()));
  }

  private static core_entry core(Path images, int tid) throws IOException {
    Path file = images.resolve("core-" + Integer.toUnsignedString(tid) + ".img");
    return ImageFileReader.only(file, ImageFileReader.Kind.CORE, core_entry.parser());
  }

  /** The ids of what a process may share with others. */
  task_kobj_ids_entry ids(int pid) throws IOException {
    return ids(pid, core(images, pid));
  }

  private task_kobj_ids_entry ids(int pid, core_entry core) throws IOException {
    Path file = images.resolve("ids-" + pid + ".img");
    return Files.exists(file)
        ? ImageFileReader.only(file, ImageFileReader.Kind.IDS, task_kobj_ids_entry.parser())
        : core.getIds();
  }

  /** Returns the capabilities that a process can have, as bits; all for a zombie. */
  static long boundingSet(Path images, int pid) throws IOException {
    List<Integer> words = core(images, pid).getThreadCore().getCreds().getCapBndList();
    long bits = words.isEmpty() ? -1 : 0;
    for (int i = 0; i < words.size() && i < 2; i++) {
      bits |= Integer.toUnsignedLong(words.get(i)) << (Integer.SIZE * i);
    }
    return bits;
  }

  private static State state(int number) {
    return switch (number) {
      case 1 -> State.ALIVE;
      case 3 -> State.STOPPED;
      case 2, 6 -> State.ZOMBIE;
      default -> State.OTHER;
    };
  }

  private List<DumpedThread> threads(pstree_entry entry) throws IOException {
    List<DumpedThread> threads = new ArrayList<>();
    for (int tid : entry.getThreadsList()) {
      if (!this.threads.add(tid)) {
        throw new BadImageException(images.resolve("pstree.img") + " has thread " + tid + " twice");
      }
      core_entry core = core(images, tid);
      String name = core.getThreadCore().getComm();
      threads.add(
          new DumpedThread(
              tid,
              name.isEmpty() ? core.getTc().getComm() : name,
              core.getThreadCore().getSeccompMode() != 0));
    }
    return threads;
  }
}
