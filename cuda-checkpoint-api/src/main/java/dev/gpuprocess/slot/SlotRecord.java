package dev.gpuprocess.slot;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.state.StateDirectoryException;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The durable record of a slot's queue in the state directory, from which the next controller
 * continues. One controller at a time holds the slot, by a lock that the kernel releases when its
 * JVM dies. Not safe for use by several threads.
 */
final class SlotRecord implements AutoCloseable {

  private static final String VERB = "open a slot";
  private static final String FORMAT = "1";
  private static final int MOST_BYTES = 1 << 20;

  /**
   * A process in the record.
   *
   * @param boot the boot in which the key is valid; empty for a process that is on disk
   * @param key the process; for a process on disk, the one that was dumped
   * @param pid its pid in the namespace of the controller
   * @param image the image that holds the process if it does not exist; null for none
   */
  record Entry(
      String boot,
      ProcessKey key,
      int pid,
      int priority,
      boolean wanted,
      Set<GpuUuid> gpus,
      long bytes,
      Duration used,
      @Nullable Path image) {

    static Entry of(QueuedProcess process, long now) {
      return new Entry(
          process.place() == Place.DISK ? "" : ProcessKey.boot(),
          process.key(),
          process.pid(),
          process.priority(),
          process.isWanted(),
          process.gpus(),
          process.bytes(),
          process.used(now),
          process.image());
    }

    /** Returns whether the process was sent to disk, and did not come back. */
    public boolean isOnDisk() {
      return boot.isEmpty();
    }

    /** Returns whether its pid and start time are those of a process since the last boot. */
    public boolean isOfThisBoot() {
      return boot.equals(ProcessKey.boot());
    }
  }

  /**
   * The content of the record.
   *
   * @param processes in the order of their turns
   * @param obsolete images that no process needs any more, to be removed
   */
  record Content(List<Entry> processes, List<Path> obsolete) {

    public Content {
      processes = List.copyOf(processes);
      obsolete = List.copyOf(obsolete);
    }

    /** Returns the content for processes in the order of their turns. */
    public static Content of(List<QueuedProcess> processes, List<Path> obsolete, long now) {
      return new Content(processes.stream().map(each -> Entry.of(each, now)).toList(), obsolete);
    }
  }

  private final StateDirectory state;
  private final NamedLock lock;
  private final Path file;

  private SlotRecord(StateDirectory state, NamedLock lock, String name) {
    this.state = state;
    this.lock = lock;
    this.file = state.path().resolve(fileName(name));
  }

  private static String fileName(String name) {
    return "slot-" + name + ".queue";
  }

  /**
   * Opens the record of a slot, which no other controller can open until this one is closed.
   *
   * @param name letters, digits, dots, hyphens and underscores
   * @throws OperationInProgressException when another controller has opened it
   * @throws StateDirectoryException when the state directory cannot be used
   */
  static SlotRecord open(StateDirectory state, String name) {
    String lockName = "slot-" + name;
    try {
      NamedLock lock =
          state
              .tryLock(lockName, VERB)
              .orElseThrow(
                  () ->
                      new OperationInProgressException(
                          "slot %s is open in %s: close it there, or wait until that JVM has ended"
                              .formatted(name, state.describeHolder(lockName)),
                          Failure.of(VERB, 0)));
      return new SlotRecord(state, lock, name);
    } catch (IOException e) {
      throw unusable(state, e);
    }
  }

  private static StateDirectoryException unusable(StateDirectory state, IOException e) {
    return new StateDirectoryException(
        "the queue of a slot cannot be kept in the state directory %s (%s): fix that, or name another directory in GPUPROCESS_STATE_DIR"
            .formatted(state.path(), state.explain(e)),
        Failure.of(VERB, 0),
        e);
  }

  /**
   * Reads what the last controller wrote; empty if there was none.
   *
   * @throws StateDirectoryException when it cannot be read, or is not a record
   */
  Content read() {
    Content empty = new Content(List.of(), List.of());
    try {
      return state
          .files()
          .get(
              "read",
              () ->
                  Files.exists(file, LinkOption.NOFOLLOW_LINKS)
                      ? parse(DurableFiles.read(file, MOST_BYTES))
                      : empty);
    } catch (IOException e) {
      throw unusable(state, e);
    }
  }

  /**
   * Replaces the record. It is on disk when this returns.
   *
   * @throws StateDirectoryException when it cannot be written; the older one stays
   */
  void write(Content content) {
    byte[] text = text(content).getBytes(StandardCharsets.UTF_8);
    Path partial = file.resolveSibling(file.getFileName() + ".new");
    try {
      state
          .files()
          .run(
              "write",
              () -> {
                Files.deleteIfExists(partial);
                DurableFiles.write(partial, text);
                Files.move(
                    partial,
                    file,
                    StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
                Descriptors.sync(state.path());
              });
    } catch (IOException e) {
      throw unusable(state, e);
    }
  }

  /** Lets another controller open it. */
  @Override
  public void close() {
    lock.close();
  }

  private static String text(Content content) {
    Properties properties = new Properties();
    properties.setProperty("format", FORMAT);
    properties.setProperty("processes", Integer.toString(content.processes().size()));
    for (int i = 0; i < content.processes().size(); i++) {
      write(properties, i + ".", content.processes().get(i));
    }
    properties.setProperty("obsolete", Integer.toString(content.obsolete().size()));
    for (int i = 0; i < content.obsolete().size(); i++) {
      properties.setProperty("obsolete." + i, NativePath.text(content.obsolete().get(i)));
    }
    StringWriter text = new StringWriter();
    try {
      properties.store(text, null);
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
    return text.toString();
  }

  private static void write(Properties properties, String prefix, Entry entry) {
    properties.setProperty(prefix + "boot", entry.boot());
    properties.setProperty(prefix + "process", entry.key().text());
    properties.setProperty(prefix + "pid", Integer.toString(entry.pid()));
    properties.setProperty(prefix + "priority", Integer.toString(entry.priority()));
    properties.setProperty(prefix + "wanted", Boolean.toString(entry.wanted()));
    properties.setProperty(
        prefix + "gpus",
        entry.gpus().stream().map(GpuUuid::text).sorted().collect(Collectors.joining(" ")));
    properties.setProperty(prefix + "bytes", Long.toString(entry.bytes()));
    properties.setProperty(prefix + "used", entry.used().toString());
    Optional.ofNullable(entry.image())
        .ifPresent(image -> properties.setProperty(prefix + "image", NativePath.text(image)));
  }

  /** Parses a record; throws an IOException for anything else. */
  private static Content parse(byte[] text) throws IOException {
    Properties properties = new Properties();
    try {
      properties.load(new StringReader(new String(text, StandardCharsets.UTF_8)));
      if (!FORMAT.equals(properties.getProperty("format"))) {
        throw new IllegalArgumentException("another version of this library wrote it");
      }
      List<Entry> processes = new ArrayList<>();
      for (int i = 0; i < number(properties, "processes"); i++) {
        processes.add(entry(properties, i + "."));
      }
      List<Path> obsolete = new ArrayList<>();
      for (int i = 0; i < number(properties, "obsolete"); i++) {
        obsolete.add(NativePath.of(properties.getProperty("obsolete." + i, "")));
      }
      return new Content(processes, obsolete);
    } catch (RuntimeException e) {
      throw new IOException("the record of a queue is not readable: " + e.getMessage(), e);
    }
  }

  private static int number(Properties properties, String name) {
    return Integer.parseInt(properties.getProperty(name, ""));
  }

  private static Entry entry(Properties properties, String prefix) {
    String image = properties.getProperty(prefix + "image");
    return new Entry(
        properties.getProperty(prefix + "boot", ""),
        ProcessKey.parse(properties.getProperty(prefix + "process", "")),
        number(properties, prefix + "pid"),
        number(properties, prefix + "priority"),
        Boolean.parseBoolean(properties.getProperty(prefix + "wanted")),
        Arrays.stream(properties.getProperty(prefix + "gpus", "").split(" "))
            .filter(each -> !each.isEmpty())
            .map(GpuUuid::of)
            .collect(Collectors.toSet()),
        Long.parseLong(properties.getProperty(prefix + "bytes", "")),
        Duration.parse(properties.getProperty(prefix + "used", "")),
        image == null ? null : NativePath.of(image));
  }
}
