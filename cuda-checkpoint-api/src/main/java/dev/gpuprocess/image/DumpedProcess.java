package dev.gpuprocess.image;

import dev.gpuprocess.internal.text.Printable;
import java.util.List;
import java.util.stream.Collectors;

/**
 * One process of a dumped tree.
 *
 * @param pid its pid in the tree's own pid namespace
 * @param parent its parent's pid, 0 for the root
 * @param group its process group
 * @param session its session
 * @param state what it was doing
 * @param name what the kernel calls it, up to 15 characters
 * @param commandLine program and arguments; empty where their memory is not in the images, as for a
 *     zombie
 * @param executable the program's file; empty for a zombie
 * @param workingDirectory its directory; empty for a zombie
 * @param uid its real user
 * @param gid its real group
 * @param threads its threads, the main thread first
 * @param memory its memory by kind
 * @param files its open files by descriptor
 */
public record DumpedProcess(
    int pid,
    int parent,
    int group,
    int session,
    State state,
    String name,
    List<String> commandLine,
    String executable,
    String workingDirectory,
    int uid,
    int gid,
    List<DumpedThread> threads,
    List<DumpedMemory> memory,
    List<DumpedFile> files) {

  /** What a process was doing. */
  public enum State {
    /** Running or sleeping. */
    ALIVE,
    /** Stopped by a signal; stopped again after a restore. */
    STOPPED,
    /** Ended, but not yet reaped by its parent. */
    ZOMBIE,
    /** Something that this library does not know. */
    OTHER
  }

  /** Copies the lists. */
  public DumpedProcess {
    commandLine = List.copyOf(commandLine);
    threads = List.copyOf(threads);
    memory = List.copyOf(memory);
    files = List.copyOf(files);
  }

  /**
   * Its memory in the images.
   *
   * @return bytes; memory that processes share counts for each of them
   */
  public long bytesDumped() {
    return memory.stream().mapToLong(DumpedMemory::dumped).sum();
  }

  @Override
  public String toString() {
    String words = commandLine.isEmpty() ? name : String.join(" ", commandLine);
    StringBuilder text = new StringBuilder("%s %s".formatted(pid, Printable.of(words)));
    if (state != State.ALIVE) {
      text.append(" (").append(state.name().toLowerCase(java.util.Locale.ROOT)).append(')');
    }
    if (threads.size() > 1) {
      text.append(", ").append(threads.size()).append(" threads");
    }
    if (!memory.isEmpty()) {
      text.append(
          memory.stream().map(DumpedMemory::toString).collect(Collectors.joining(", ", ": ", "")));
    }
    files.forEach(file -> text.append("\n  ").append(file));
    return text.toString();
  }
}
