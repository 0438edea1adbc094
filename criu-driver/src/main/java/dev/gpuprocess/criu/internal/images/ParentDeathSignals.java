package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.internal.images.ImageFileReader.Kind;
import dev.gpuprocess.criu.proto.Images.core_entry;
import dev.gpuprocess.criu.proto.Images.pstree_entry;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The parent-death signal of the root ({@code PR_SET_PDEATHSIG}), which is moved from CRIU's images
 * to a file of this library. CRIU would set it while CRIU itself is the parent, and then exit: the
 * signal would end the process that was just restored. The parents of all other processes are in
 * the tree, so CRIU restores their signals.
 *
 * @param byThread the signals by the ids of threads in the image
 */
public record ParentDeathSignals(Map<Integer, Integer> byThread) {

  private static final String FILE = "parent-death-signals.txt";
  private static final Pattern LINE = Pattern.compile("(\\d{1,9}) (\\d{1,3})");

  /** Two magic numbers and the size of the message. */
  private static final int HEADER_BYTES = 3 * Integer.BYTES;

  /** Copies the map. */
  public ParentDeathSignals {
    byThread = Map.copyOf(byThread);
  }

  /**
   * Moves the signals out of complete images, before their checksums are made.
   *
   * @param images the directory, in which this user can replace files
   * @throws IOException when a file is missing, cut off or altered, or cannot be replaced
   */
  public static void move(Path images) throws IOException {
    Map<Integer, Integer> found = new TreeMap<>();
    pstree_entry root =
        ImageFileReader.only(images.resolve("pstree.img"), Kind.PSTREE, pstree_entry.parser());
    for (int thread : root.getThreadsList()) {
      Path file = images.resolve("core-" + Integer.toUnsignedString(thread) + ".img");
      core_entry core = ImageFileReader.only(file, Kind.CORE, core_entry.parser());
      if (core.getThreadCore().getPdeathSig() != 0) {
        found.put(thread, core.getThreadCore().getPdeathSig());
        replace(file, without(core));
      }
    }
    if (!found.isEmpty()) {
      StringBuilder text = new StringBuilder();
      found.forEach(
          (thread, signal) -> text.append(thread).append(' ').append(signal).append('\n'));
      Files.writeString(images.resolve(FILE), text);
    }
  }

  /**
   * Reads the signals of an image.
   *
   * @return none for an image without them, as all of earlier versions are
   * @throws IOException when the file cannot be read or has another format
   */
  public static ParentDeathSignals in(Path images) throws IOException {
    Path file = images.resolve(FILE);
    Map<Integer, Integer> found = new TreeMap<>();
    if (Files.exists(file)) {
      for (String line : Files.readAllLines(file, StandardCharsets.US_ASCII)) {
        Matcher parts = LINE.matcher(line);
        if (!parts.matches()) {
          throw new BadImageException(file + " is altered");
        }
        found.put(Integer.valueOf(parts.group(1)), Integer.valueOf(parts.group(2)));
      }
    }
    return new ParentDeathSignals(found);
  }

  private static core_entry without(core_entry core) {
    core_entry.Builder changed = core.toBuilder();
    changed.getThreadCoreBuilder().clearPdeathSig();
    return changed.build();
  }

  /** The magic numbers stay, and so do the fields that this library does not know. */
  private static void replace(Path file, core_entry core) throws IOException {
    byte[] message = core.toByteArray();
    ByteBuffer content =
        ByteBuffer.allocate(HEADER_BYTES + message.length).order(ByteOrder.LITTLE_ENDIAN);
    content.putInt(ImageFileReader.COMMON).putInt(Kind.CORE.magic());
    content.putInt(message.length).put(message);
    Path written = file.resolveSibling(file.getFileName() + ".new");
    Files.write(written, content.array());
    Files.move(written, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }
}
