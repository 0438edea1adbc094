package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.image.DumpedFile;
import dev.gpuprocess.image.DumpedMemory;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.image.DumpedThread;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Stream;

/** A tree as /proc shows it, to be compared with its images. */
record TreeInProc(List<OneInProc> processes) {

  record OneInProc(
      ProcStat stat,
      List<String> commandLine,
      TreeMap<Integer, String> threads,
      TreeMap<Integer, String> files,
      String executable,
      String workingDirectory) {}

  /** Reads a stopped tree. */
  static TreeInProc of(int root) {
    List<OneInProc> processes = new ArrayList<>(List.of(one(root)));
    ProcFs.descendants(root).forEach(pid -> processes.add(one(pid)));
    return new TreeInProc(processes);
  }

  private static OneInProc one(int pid) {
    TreeMap<Integer, String> files = new TreeMap<>();
    for (OpenFile file : ProcFs.openFiles(pid)) {
      files.put(file.number(), file.target());
    }
    return new OneInProc(
        ProcFs.stat(pid).orElseThrow(),
        ProcFs.commandLine(pid),
        threads(pid),
        files,
        link(pid, "exe"),
        link(pid, "cwd"));
  }

  private static TreeMap<Integer, String> threads(int pid) {
    try (Stream<Path> tasks = Files.list(Path.of("/proc/" + pid + "/task"))) {
      TreeMap<Integer, String> threads = new TreeMap<>();
      for (Path task : tasks.toList()) {
        int tid = Integer.parseInt(task.toFile().getName());
        threads.put(tid, Files.readString(task.resolve("comm")).strip());
      }
      return threads;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String link(int pid, String name) {
    try {
      return new File("/proc/" + pid, name).toPath().toRealPath().toString();
    } catch (IOException zombieOrDeleted) {
      return "";
    }
  }

  void assertSameAs(DumpedTree tree) {
    assertEquals(
        processes.stream().map(process -> process.stat().pid()).sorted().toList(),
        tree.processes().stream().map(DumpedProcess::pid).sorted().toList());
    processes.forEach(
        process -> assertSame(process, tree.process(process.stat().pid()).orElseThrow()));
    assertEquals(processes.get(0).stat().pid(), tree.root().pid());
  }

  private void assertSame(OneInProc expected, DumpedProcess found) {
    ProcStat stat = expected.stat();
    boolean root = stat.pid() == processes.get(0).stat().pid();
    assertEquals(root ? 0 : stat.parent(), found.parent(), found::toString);
    assertEquals(stat.group(), found.group(), found::toString);
    assertEquals(stat.session(), found.session(), found::toString);
    assertEquals(stat.name(), found.name());
    if (stat.isDead()) {
      assertEquals(DumpedProcess.State.ZOMBIE, found.state());
      return;
    }
    assertEquals(expected.commandLine(), found.commandLine());
    TreeMap<Integer, String> threads = new TreeMap<>();
    for (DumpedThread thread : found.threads()) {
      threads.put(thread.id(), thread.name());
    }
    assertEquals(expected.threads(), threads);
    assertEquals(
        List.copyOf(expected.files().keySet()),
        found.files().stream().map(DumpedFile::descriptor).toList());
    for (DumpedFile file : found.files()) {
      assertSame(expected.files().get(file.descriptor()), file);
    }
    assertEquals(expected.executable(), found.executable());
    if (!expected.workingDirectory().isEmpty()) {
      assertEquals(expected.workingDirectory(), found.workingDirectory());
    }
    assertTrue(found.bytesDumped() > 0, found::toString);
    for (DumpedMemory memory : found.memory()) {
      assertTrue(memory.mapped() >= memory.dumped(), found::toString);
    }
  }

  private static void assertSame(String target, DumpedFile file) {
    String text = file.text();
    boolean right =
        switch (file.kind()) {
          case FILE -> target.replace(" (deleted)", "").equals(text.replaceAll(" at \\d+$", ""));
          case PIPE -> target.startsWith("pipe:");
          case FIFO -> text.equals("fifo " + target);
          case INET_SOCKET, UNIX_SOCKET, PACKET_SOCKET, NETLINK_SOCKET ->
              target.startsWith("socket:");
          case EVENTFD -> target.equals("anon_inode:[eventfd]");
          case EPOLL -> target.equals("anon_inode:[eventpoll]");
          case SIGNALFD -> target.equals("anon_inode:[signalfd]");
          case TIMERFD -> target.equals("anon_inode:[timerfd]");
          case INOTIFY -> target.equals("anon_inode:inotify");
          case FANOTIFY -> target.equals("anon_inode:[fanotify]");
          case PIDFD -> target.contains("pidfd");
          case MEMFD -> target.startsWith("/memfd:" + text.substring("memfd ".length()));
          case TERMINAL -> text.equals("terminal " + target);
          default -> false;
        };
    assertTrue(right, () -> file + " was " + target);
  }
}
