package dev.gpuprocess.internal.journal;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.process.ProcessSearch;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.process.ProcessIdentity;
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
 * What a controller is doing to a process, for a recovery if the controller dies. Immutable.
 *
 * @param boot the kernel's boot id; all this is only valid for that boot
 * @param key the process; for a restore from an image, the pid it will have, with the earliest
 *     possible start time
 * @param pid its pid as its controller sees it
 * @param controller the JVM that works on it
 * @param step how far it got, such as {@code lock} or {@code checkpointed}
 * @param held how much the process held on each GPU
 * @param image where its image is or will be; null for none
 * @param log the directory of CRIU's log while CRIU works on the process; otherwise null
 * @param areas the memory that the driver mapped at the checkpoint; empty where that was not
 *     observed
 * @param root the root of the tree whose members are moved together
 * @param history what was known of the process before this step
 */
public record JournalEntry(
    String boot,
    ProcessKey key,
    int pid,
    ProcessKey controller,
    String step,
    Holdings held,
    @Nullable Path image,
    @Nullable Path log,
    List<AddressRange> areas,
    ProcessKey root,
    ProcessHistory history) {

  /** Copies the list. */
  public JournalEntry {
    areas = List.copyOf(areas);
  }

  /** Of a root, without areas and history. */
  public JournalEntry(
      String boot,
      ProcessKey key,
      int pid,
      ProcessKey controller,
      String step,
      Holdings held,
      @Nullable Path image,
      @Nullable Path log) {
    this(boot, key, pid, controller, step, held, image, log, List.of(), key, ProcessHistory.NONE);
  }

  /** The step of an entry for a restore from an image. */
  static final String RESTORING = "criu restore";

  /** The step of an entry for an image whose process runs already. */
  static final String WRITING = "write image";

  /** The step of an entry for a launched process that is to end with its controller. */
  static final String LAUNCHED = "launched";

  private static final String COMPLETE = "complete";
  private static final String ROOT = "job";

  /** For an operation of this JVM. */
  public static JournalEntry of(
      ProcessKey key,
      int pid,
      String step,
      Holdings held,
      @Nullable Path image,
      @Nullable Path log) {
    return new JournalEntry(ProcessKey.boot(), key, pid, ProcessKey.self(), step, held, image, log);
  }

  /** The same with these areas. */
  public JournalEntry in(List<AddressRange> found) {
    return new JournalEntry(
        boot, key, pid, controller, step, held, image, log, found, root, history);
  }

  /** The same of a member of a tree. */
  public JournalEntry below(ProcessKey itsRoot) {
    return new JournalEntry(
        boot, key, pid, controller, step, held, image, log, areas, itsRoot, history);
  }

  /** The same with this history. */
  public JournalEntry after(ProcessHistory known) {
    return new JournalEntry(boot, key, pid, controller, step, held, image, log, areas, root, known);
  }

  public boolean isImageRestore() {
    return step.equals(RESTORING);
  }

  /** Whether it is about an image alone, and nothing is to be mended of a process. */
  public boolean isOfImage() {
    return step.equals(WRITING);
  }

  boolean isOfThisBoot() {
    return boot.equals(ProcessKey.boot());
  }

  /**
   * Whether its controller is alive. A controller that we cannot see, because its pid namespace is
   * not ours or below ours, counts as alive.
   */
  public boolean hasLiveController() {
    return isOfThisBoot() && !controller.hasEnded();
  }

  /** The process as its controller saw it. */
  public ProcessIdentity process() {
    return new ProcessIdentity(pid, key.startTicks());
  }

  /** Looks for the process from here. */
  public ProcessSearch find() {
    if (!isOfThisBoot()) {
      return new ProcessSearch(Optional.empty(), true);
    }
    // A controller of our own namespace saw the process under the same pid.
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
    if (!areas.isEmpty()) {
      properties.setProperty("areas", AddressRange.text(areas));
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
        new Holdings(held, COMPLETE.equals(properties.getProperty("holdings"))),
        path(properties, "image"),
        path(properties, "log"),
        AddressRange.parse(properties.getProperty("areas", "")),
        key(properties, properties.containsKey(ROOT + ".pid") ? ROOT : "target"),
        ProcessHistory.read(properties));
  }

  private static @Nullable Path path(Properties properties, String name) {
    String text = properties.getProperty(name);
    return text == null ? null : NativePath.of(text);
  }

  private static void write(Properties properties, String who, ProcessKey key) {
    properties.setProperty(who + ".namespace", Long.toString(key.namespace()));
    properties.setProperty(who + ".pid", Integer.toString(key.pid()));
    properties.setProperty(who + ".start", Long.toString(key.startTicks()));
  }

  private static ProcessKey key(Properties properties, String who) {
    return new ProcessKey(
        Long.parseLong(properties.getProperty(who + ".namespace", "")),
        Integer.parseInt(properties.getProperty(who + ".pid", "")),
        Long.parseLong(properties.getProperty(who + ".start", "")));
  }
}
