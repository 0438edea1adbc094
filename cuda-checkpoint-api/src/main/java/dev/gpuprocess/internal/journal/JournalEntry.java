package dev.gpuprocess.internal.journal;

import dev.gpuprocess.gpu.GpuUuid;
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
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * What is being done to a process, for whoever comes after us.
 *
 * @param boot since when the machine runs of which all this is said
 * @param key the process; for a restore from an image the pid it will have, and as start time the
 *     moment before which it cannot have started
 * @param pid its pid as its controller knows it
 * @param controller who is at it
 * @param step how far it got, such as {@code lock} or {@code checkpointed}
 * @param held what the process held on each GPU
 * @param image where its image is or will be, null where none is involved
 * @param log the directory of CRIU's log while CRIU is at work, else null
 */
record JournalEntry(
    String boot,
    ProcessKey key,
    int pid,
    ProcessKey controller,
    String step,
    Holdings held,
    @Nullable Path image,
    @Nullable Path log) {

  /** The step of an entry for a restore from an image. */
  static final String RESTORING = "criu restore";

  private static final String COMPLETE = "complete";

  /** Of something that we do now. */
  static JournalEntry of(
      ProcessKey key,
      int pid,
      String step,
      Holdings held,
      @Nullable Path image,
      @Nullable Path log) {
    return new JournalEntry(ProcessKey.boot(), key, pid, ProcessKey.self(), step, held, image, log);
  }

  boolean isImageRestore() {
    return step.equals(RESTORING);
  }

  boolean isOfThisBoot() {
    return boot.equals(ProcessKey.boot());
  }

  /**
   * Whether somebody goes on with it. A controller that we cannot see, as it is in a pid namespace
   * beside or above ours, counts as alive.
   */
  boolean hasLiveController() {
    return isOfThisBoot() && !controller.hasEnded();
  }

  /** The process as its controller knew it. */
  ProcessIdentity target() {
    return new ProcessIdentity(pid, key.startTicks());
  }

  /** The process as it can be seen from here. */
  ProcessSearch find() {
    if (!isOfThisBoot()) {
      return new ProcessSearch(Optional.empty(), true);
    }
    // A controller of our own namespace saw what we see, and under the same pid.
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
    StringWriter text = new StringWriter();
    try {
      properties.store(text, null);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.toString();
  }

  /** Reads an entry; throws IllegalArgumentException when the text is not one. */
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
        path(properties, "log"));
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
