package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The namespaces of a task (namespaces(7)), as the links in {@code /proc/PID/ns} identify them. A
 * namespace that this user may not see, or that the kernel does not have, is missing.
 */
public final class Namespaces {

  private final Map<Kind, String> links = new EnumMap<>(Kind.class);

  /** A kind of namespace. */
  public enum Kind {
    CGROUP("cgroup", "control group"),
    IPC("ipc", "IPC"),
    MOUNT("mnt", "mount"),
    NETWORK("net", "network"),
    PID("pid", "PID"),
    TIME("time", "time"),
    USER("user", "user"),
    UTS("uts", "UTS"),
    /** The PID namespace of the children that the process will start. */
    PID_OF_CHILDREN("pid_for_children", "PID"),
    /** The time namespace of the children that the process will start. */
    TIME_OF_CHILDREN("time_for_children", "time");

    private final String link;
    private final String word;

    Kind(String link, String word) {
      this.link = link;
      this.word = word;
    }

    /** Returns the name of the link, such as {@code mnt}. */
    public String link() {
      return link;
    }

    /** Returns the word for messages, such as {@code mount}. */
    public String word() {
      return word;
    }
  }

  private Namespaces(Path task) {
    for (Kind kind : Kind.values()) {
      try {
        links.put(kind, Files.readSymbolicLink(task.resolve("ns").resolve(kind.link)).toString());
      } catch (IOException goneOrForbidden) {
        // An unknown namespace equals every other one.
      }
    }
  }

  /** Reads the namespaces of a process. */
  public static Namespaces of(long pid) {
    return new Namespaces(ProcFs.file(pid));
  }

  /** Reads the namespaces of a thread, which may have left some of its process. */
  public static Namespaces of(long pid, int thread) {
    return new Namespaces(ProcFs.taskDirectory(pid, thread));
  }

  /** Reads the namespaces of this process. */
  public static Namespaces ours() {
    return new Namespaces(ProcFs.self());
  }

  /** Returns the link of a namespace, such as {@code mnt:[4026531841]}; empty if unknown. */
  public Optional<String> get(Kind kind) {
    return Optional.ofNullable(links.get(kind));
  }

  /** Returns whether both namespaces of a kind are known, and differ. */
  public boolean differs(Kind kind, Namespaces other) {
    return differ(get(kind), other.get(kind));
  }

  /** Returns the kinds in which both namespaces are known, and differ. */
  public List<Kind> differences(Namespaces other) {
    List<Kind> different = new ArrayList<>();
    for (Kind kind : Kind.values()) {
      if (differs(kind, other)) {
        different.add(kind);
      }
    }
    return different;
  }

  /** Returns whether children will be started in another namespace than the process has. */
  public boolean differWithin(Kind own, Kind ofChildren) {
    return differ(get(own), get(ofChildren));
  }

  private static boolean differ(Optional<String> one, Optional<String> other) {
    return one.isPresent() && other.isPresent() && !one.equals(other);
  }
}
