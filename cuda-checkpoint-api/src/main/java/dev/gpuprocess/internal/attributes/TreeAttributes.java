package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The attributes of a process tree that CRIU does not restore. */
public final class TreeAttributes {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The time for the system calls in one process. */
  private static final Duration CALLS = Duration.ofSeconds(2);

  private static final List<String> RIGHTS =
      List.of("Uid", "Gid", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp");

  private final Set<FoundAttribute> found = new LinkedHashSet<>();
  private final Map<Integer, VisibleAttributes> seen = new LinkedHashMap<>();
  private final List<SystemCallSettings> carried = new ArrayList<>();

  /** The shared files that the image does not hold. */
  private final List<FileNode> left = new ArrayList<>();

  private final Set<Attribute> late = EnumSet.noneOf(Attribute.class);
  private final Set<Integer> unexamined = new TreeSet<>();

  private TreeAttributes() {}

  /** Finds the attributes that {@code /proc} shows. Does not touch the tree. */
  public static TreeAttributes visible(int root, WorkLimit limit) {
    TreeAttributes attributes = looked(root, limit);
    if (!RemoteCalls.areMadeHere()) {
      attributes.seen.values().forEach(each -> attributes.found.addAll(each.found()));
    }
    return attributes;
  }

  private static TreeAttributes looked(int root, WorkLimit limit) {
    TreeAttributes attributes = new TreeAttributes();
    for (int pid : ProcFs.tree(root)) {
      limit.check();
      attributes.look(pid, limit);
    }
    attributes.lookAtSharedFiles(root, limit);
    return attributes;
  }

  /**
   * Finds also the attributes that only the process itself can read, by system calls on a thread of
   * each process. The processes continue.
   */
  public static TreeAttributes examined(int root, WorkLimit limit) {
    TreeAttributes attributes = looked(root, limit);
    SystemCallProbe probe = new SystemCallProbe(LandlockWitnesses.of(root));
    for (int pid : ProcFs.tree(root)) {
      limit.check();
      ProcessIdentity.of(pid)
          .ifPresent(
              process -> {
                attributes.probe(process, probe);
                attributes.read(process);
              });
    }
    return attributes;
  }

  private void lookAtSharedFiles(int root, WorkLimit limit) {
    SharedFileCheck check = new SharedFileCheck(root);
    try {
      for (SharedFile file : SharedFile.of(root, limit)) {
        Optional<String> obstacle = check.obstacle(file);
        if (obstacle.isPresent()) {
          left.add(file.node());
          found.add(
              new FoundAttribute(
                  Attribute.SHARED_FILES, file.pid(), SharedFileCheck.what(file, obstacle.get())));
        }
      }
    } catch (ProcessUnreadableException e) {
      LOG.debug("mappings of process {} cannot be read: {}", root, e.getMessage());
    }
  }

  /** Returns whether the image holds the content of a file. */
  public boolean holds(SharedFile file) {
    return left.stream().noneMatch(file.node()::isSameFile);
  }

  private void look(int pid, WorkLimit limit) {
    try {
      seen.put(pid, VisibleAttributes.of(pid, limit));
    } catch (ProcessUnreadableException e) {
      LOG.debug("attributes of process {} cannot be read: {}", pid, e.getMessage());
      unexamined.add(pid);
    }
  }

  /**
   * Examines the first thread of a process, and each thread that differs from it in its rights.
   * Other threads have what the first thread has, unless it confined itself alone.
   */
  private void probe(ProcessIdentity process, SystemCallProbe probe) {
    Set<String> seen = new HashSet<>();
    for (int task : ProcFs.threads(process.pid())) {
      if (seen.add(rights(task))) {
        probe(process, task, probe);
      }
    }
  }

  private void probe(ProcessIdentity process, int task, SystemCallProbe probe) {
    try {
      found.addAll(RemoteCalls.borrow(process, CALLS, each -> each == task, probe::examine));
    } catch (UntraceableException | IOException e) {
      LOG.debug("thread {} of process {} cannot be examined", task, process.pid(), e);
      unexamined.add(process.pid());
    }
  }

  /** Reads what a restore can set again; what cannot be read is lost. */
  private void read(ProcessIdentity process) {
    VisibleAttributes visible = seen.get(process.pid());
    if (visible == null) {
      return;
    }
    try {
      SystemCallSettings settings = SystemCallSettings.of(process, visible, CALLS);
      if (!settings.isEmpty()) {
        carried.add(settings);
      }
    } catch (UntraceableException | IOException e) {
      LOG.debug("settings of process {} cannot be read", process.pid(), e);
      unexamined.add(process.pid());
      found.addAll(visible.found());
    }
  }

  /** Returns what a restored process sets again by system calls. */
  public List<SystemCallSettings> carried() {
    return List.copyOf(carried);
  }

  private static String rights(int task) {
    Map<String, String> status = ProcFs.status(task);
    return RIGHTS.stream().map(status::get).toList().toString();
  }

  /**
   * Returns a problem for each attribute of confinement whose loss is not allowed, and a warning
   * for each other attribute.
   */
  public List<Finding> findings(Set<Attribute> allowed) {
    return found.stream().map(each -> each.finding(allowed)).toList();
  }

  /** Adds attributes that were found to be lost while the image was written. */
  public void add(Set<Attribute> others) {
    late.addAll(others);
  }

  /** Returns the names of the attributes that an image lacks. */
  public List<String> lost() {
    Set<Attribute> lost = EnumSet.noneOf(Attribute.class);
    lost.addAll(late);
    found.forEach(each -> lost.add(each.attribute()));
    return lost.stream().map(Attribute::text).toList();
  }

  /** Logs what an image lacks, and which processes could not be examined. */
  public void log(int root) {
    List<String> lost = lost();
    if (!lost.isEmpty()) {
      LOG.warn("the image of process {} lacks these attributes: {}", root, lost);
    }
    if (!unexamined.isEmpty()) {
      LOG.info("Landlock, MDWE and keyrings of the processes {} could not be examined", unexamined);
    }
  }
}
