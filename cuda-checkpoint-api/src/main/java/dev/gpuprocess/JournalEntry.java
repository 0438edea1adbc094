package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuUuid;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * What is being done to a process, for whoever comes after us.
 *
 * @param target the process; for a restore from an image the pid it will have, and as start time
 *     the moment before which it cannot have started
 * @param controller who is at it
 * @param step how far it got, such as {@code lock} or {@code checkpointed}
 * @param held what the process held on each GPU
 * @param image where its image is or will be, null where none is involved
 * @param log the directory of CRIU's log while CRIU is at work, else null
 */
record JournalEntry(
    ProcessIdentity target,
    ProcessIdentity controller,
    String step,
    Holdings held,
    @Nullable Path image,
    @Nullable Path log) {

  /** The step of an entry for a restore from an image. */
  static final String RESTORING = "criu restore";

  private static final String COMPLETE = "complete";

  boolean isImageRestore() {
    return step.equals(RESTORING);
  }

  String text() {
    Properties properties = new Properties();
    properties.setProperty("target.pid", Integer.toString(target.pid()));
    properties.setProperty("target.start", Long.toString(target.startTicks()));
    properties.setProperty("controller.pid", Integer.toString(controller.pid()));
    properties.setProperty("controller.start", Long.toString(controller.startTicks()));
    properties.setProperty("step", step);
    properties.setProperty("holdings", held.complete() ? COMPLETE : "incomplete");
    held.known().forEach((gpu, bytes) -> properties.setProperty("held." + gpu, bytes.toString()));
    if (image != null) {
      properties.setProperty("image", image.toString());
    }
    if (log != null) {
      properties.setProperty("log", log.toString());
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
        identity(properties, "target"),
        identity(properties, "controller"),
        properties.getProperty("step", ""),
        new Holdings(held, COMPLETE.equals(properties.getProperty("holdings"))),
        path(properties, "image"),
        path(properties, "log"));
  }

  private static @Nullable Path path(Properties properties, String name) {
    String text = properties.getProperty(name);
    return text == null ? null : Path.of(text);
  }

  private static ProcessIdentity identity(Properties properties, String who) {
    return new ProcessIdentity(
        Integer.parseInt(properties.getProperty(who + ".pid", "")),
        Long.parseLong(properties.getProperty(who + ".start", "")));
  }
}
