package dev.gpuprocess.internal.state;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The record of what a controller does to a process, for a recovery if the controller dies.
 * Immutable.
 *
 * @param boot the kernel's boot id; the entry is valid only for that boot
 * @param key the process; for a restore from an image, the pid it will have, with the earliest
 *     possible start time
 * @param pid its pid in the namespace of the controller
 * @param controller the JVM that works on the process
 * @param step the step that began, such as {@code lock}, or the state reached, such as {@code
 *     checkpointed}
 * @param held the memory that the process held on each GPU
 * @param image the directory of its image, which may not exist yet; null for none
 * @param log the directory of CRIU's log while CRIU works on the process; otherwise null
 * @param saveFiles the files that the driver's save areas may be in; empty if it maps memory of its
 *     own
 * @param root the root of the tree whose members are moved together
 * @param history the part of the entry that is kept from step to step
 */
public record JournalEntry(
    String boot,
    ProcessKey key,
    int pid,
    ProcessKey controller,
    String step,
    GpuUsage held,
    @Nullable Path image,
    @Nullable Path log,
    List<FileId> saveFiles,
    ProcessKey root,
    ProcessHistory history) {

  public JournalEntry {
    saveFiles = List.copyOf(saveFiles);
  }

  /** Creates the entry of a root, without save files and history. */
  public JournalEntry(
      String boot,
      ProcessKey key,
      int pid,
      ProcessKey controller,
      String step,
      GpuUsage held,
      @Nullable Path image,
      @Nullable Path log) {
    this(boot, key, pid, controller, step, held, image, log, List.of(), key, ProcessHistory.NONE);
  }

  /** The step of an entry for a restore from an image. */
  static final String RESTORING = "criu restore";

  /** The step of an entry for an image whose process is running again. */
  static final String WRITING = "write image";

  /** The step of an entry for a launched process that must exit with its controller. */
  static final String LAUNCHED = "launched";

  private static final String COMPLETE = "complete";
  private static final String ROOT = "job";

  /** Creates an entry of this JVM. */
  public static JournalEntry of(
      ProcessKey key,
      int pid,
      String step,
      GpuUsage held,
      @Nullable Path image,
      @Nullable Path log) {
    return new JournalEntry(ProcessKey.boot(), key, pid, ProcessKey.self(), step, held, image, log);
  }

  /** Returns this entry with other save files. */
  public JournalEntry in(List<FileId> found) {
    return new JournalEntry(
        boot, key, pid, controller, step, held, image, log, found, root, history);
  }

  /** Returns this entry as that of a member of a tree. */
  public JournalEntry below(ProcessKey treeRoot) {
    return new JournalEntry(
        boot, key, pid, controller, step, held, image, log, saveFiles, treeRoot, history);
  }

  /** Returns this entry with another history. */
  public JournalEntry after(ProcessHistory known) {
    return new JournalEntry(
        boot, key, pid, controller, step, held, image, log, saveFiles, root, known);
  }

  public boolean isImageRestore() {
    return step.equals(RESTORING);
  }

  /** Returns whether the entry is about an image only, so that no process is to be recovered. */
  public boolean isOfImage() {
    return step.equals(WRITING);
  }

  boolean isOfThisBoot() {
    return boot.equals(ProcessKey.boot());
  }

  /**
   * Returns whether its controller is alive. A controller that is not visible, because its pid
   * namespace is not ours or below ours, counts as alive.
   */
  public boolean hasLiveController() {
    return isOfThisBoot() && !controller.hasEnded();
  }

  /** Returns the process, with its pid in the namespace of the controller. */
  public ProcessIdentity process() {
    return new ProcessIdentity(pid, key.startTicks());
  }

  /** Searches the process in our pid namespace. */
  public ProcessSearch find() {
    if (!isOfThisBoot()) {
      return new ProcessSearch(Optional.empty(), true);
    }
    // In the namespace of the controller, if it is ours, the process has the same pid.
    boolean sameView = controller.namespace() == ProcessKey.self().namespace();
    return ProcessSearch.find(
        sameView ? controller.namespace() : key.namespace(),
        sameView ? pid : key.pid(),
        start -> isImageRestore() ? start >= key.startTicks() : start == key.startTicks());
  }

  String text() {
    Properties properties = new Properties();
    properties.setProperty("boot", boot);
    write(properties, "target", key);
    properties.setProperty("pid", Integer.toString(pid));
    write(properties, "controller", controller);
    properties.setProperty("step", step);
    properties.setProperty("holdings", held.complete() ? COMPLETE : "incomplete");
    held.known().forEach((gpu, bytes) -> properties.setProperty("held." + gpu, bytes.toString()));
    if (image != null) {
      properties.setProperty("image", NativePath.text(image));
    }
    if (log != null) {
      properties.setProperty("log", NativePath.text(log));
    }
    if (!saveFiles.isEmpty()) {
      properties.setProperty("saveFiles", FileId.text(saveFiles));
    }
    if (!root.equals(key)) {
      write(properties, ROOT, root);
    }
    history.write(properties);
    StringWriter text = new StringWriter();
    try {
      properties.store(text, null);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.toString();
  }

  /** Parses an entry; throws IllegalArgumentException when the text is not one. */
  static JournalEntry parse(String text) {
    Properties properties = new Properties();
    try {
      properties.load(new StringReader(text));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    Map<GpuUuid, Long> held = new TreeMap<>();
    for (String key : properties.stringPropertyNames()) {
      if (key.startsWith("held.")) {
        held.put(GpuUuid.of(key.substring(5)), Long.valueOf(properties.getProperty(key)));
      }
    }
    return new JournalEntry(
        properties.getProperty("boot", ""),
        key(properties, "target"),
        Integer.parseInt(properties.getProperty("pid", "")),
        key(properties, "controller"),
        properties.getProperty("step", ""),
        new GpuUsage(held, COMPLETE.equals(properties.getProperty("holdings"))),
        path(properties, "image"),
        path(properties, "log"),
        FileId.parse(properties.getProperty("saveFiles", "")),
        key(properties, properties.containsKey(ROOT + ".pid") ? ROOT : "target"),
        ProcessHistory.read(properties));
  }

  private static @Nullable Path path(Properties properties, String name) {
    String text = properties.getProperty(name);
    return text == null ? null : NativePath.of(text);
  }

  private static void write(Properties properties, String role, ProcessKey key) {
    properties.setProperty(role + ".namespace", Long.toString(key.namespace()));
    properties.setProperty(role + ".pid", Integer.toString(key.pid()));
    properties.setProperty(role + ".start", Long.toString(key.startTicks()));
  }

  private static ProcessKey key(Properties properties, String role) {
    return ProcessKey.parse(
        properties.getProperty(role + ".namespace", ""),
        properties.getProperty(role + ".pid", ""),
        properties.getProperty(role + ".start", ""));
  }
}
