package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The resolution of a path for {@link UntrustedPaths}, name by name from a directory that is open.
 * Names are bytes, one in each character.
 */
final class PathWalk {

  private static final int MOST_LINKS = 40;
  private static final int MOST_STEPS = 10_000;
  private static final int LONGEST_LINK = 4096;
  private final UntrustedPaths paths;
  private final Path path;
  private final boolean throughLinks;
  private final Deque<String> left = new ArrayDeque<>();
  private final List<String> done = new ArrayList<>();
  private int directory;
  private int links;

  PathWalk(UntrustedPaths paths, Path path, boolean throughLinks) throws IOException {
    if (!path.isAbsolute()) {
      throw UntrustedPaths.refused(path, "is not an absolute path");
    }
    this.paths = paths;
    this.path = path;
    this.throughLinks = throughLinks;
    addFirst(bytes(NativePath.bytes(path)));
  }

  private static String bytes(byte[] name) {
    return new String(name, StandardCharsets.ISO_8859_1);
  }

  private void addFirst(String text) {
    List<String> names = Arrays.asList(text.split("/"));
    for (int i = names.size() - 1; i >= 0; i--) {
      boolean isLast = i == names.size() - 1 && left.isEmpty();
      if (!names.get(i).isEmpty() && (isLast || !names.get(i).equals("."))) {
        left.addFirst(names.get(i));
      }
    }
  }

  Place run() throws IOException {
    if (left.isEmpty()) {
      left.add(".");
    }
    directory = openRoot();
    boolean arrived = false;
    try {
      for (int steps = 0; steps < MOST_STEPS; steps++) {
        String name = left.removeFirst();
        if (name.equals("..")) {
          up();
        } else if (!left.isEmpty()) {
          enter(name);
        } else if (!throughLinks || !isFollowed(name)) {
          arrived = true;
          return new Place(paths, directory, name, real(name));
        }
      }
      throw UntrustedPaths.refused(path, "is too long");
    } finally {
      if (!arrived) {
        Descriptors.close(directory);
      }
    }
  }

  private int openRoot() throws FileSystemException {
    return Libc.open(paths.root, Libc.O_PATH | Libc.O_DIRECTORY);
  }

  /** Follows a link at the end of the path, if it is one. */
  private boolean isFollowed(String name) throws IOException {
    int last = openAt(paths, directory, name, Libc.O_PATH | Libc.O_NOFOLLOW, 0, real(name));
    try {
      FileNode node = FileNode.of(last);
      if (node.isLink()) {
        follow(name, node, last);
      }
      return node.isLink();
    } finally {
      Descriptors.close(last);
    }
  }

  private void enter(String name) throws IOException {
    int next = openAt(paths, directory, name, Libc.O_PATH | Libc.O_NOFOLLOW, 0, real(name));
    boolean entered = false;
    try {
      FileNode node = FileNode.of(next);
      if (node.isLink()) {
        follow(name, node, next);
      } else {
        entered = true;
        Descriptors.close(directory);
        directory = next;
        done.add(name);
      }
    } finally {
      if (!entered) {
        Descriptors.close(next);
      }
    }
  }

  private void follow(String name, FileNode link, int descriptor) throws IOException {
    if (!isTrusted(link)) {
      throw UntrustedPaths.refused(
          real(name),
          "is a symbolic link of user %s, which is not followed: name what it leads to"
              .formatted(Integer.toUnsignedString(link.user())));
    }
    if (++links > MOST_LINKS) {
      throw UntrustedPaths.refused(path, "has too many symbolic links");
    }
    String target = target(descriptor, real(name));
    if (target.startsWith("/")) {
      done.clear();
      restart();
    }
    addFirst(target);
  }

  private boolean isTrusted(FileNode link) throws IOException {
    return link.user() == 0
        || link.user() == CurrentUser.get().effectiveUid()
        || (throughLinks && paths.as != null && link.user() == paths.as.user());
  }

  private static String target(int descriptor, Path shown) throws IOException {
    NativeMemory text = NativeMemory.of(LONGEST_LINK);
    long length =
        call(null, SystemCalls.READLINKAT, descriptor, memory(""), text.address(), text.bytes());
    if (length < 0) {
      throw Libc.failed(shown, "cannot be read", (int) -length);
    }
    return bytes(text.read(0, (int) length));
  }

  /** The directory above one without links is named by all names but the last. */
  private void up() throws IOException {
    if (left.isEmpty()) {
      throw UntrustedPaths.refused(path, "ends with ..");
    }
    if (!done.isEmpty()) {
      done.remove(done.size() - 1);
    }
    for (int i = done.size() - 1; i >= 0; i--) {
      left.addFirst(done.get(i));
    }
    done.clear();
    restart();
  }

  private void restart() throws IOException {
    int again = openRoot();
    Descriptors.close(directory);
    directory = again;
  }

  private Path real(String name) {
    List<String> names = new ArrayList<>(done);
    if (!name.equals(".")) {
      names.add(name);
    }
    String all = "/" + String.join("/", names);
    return NativePath.of(all.getBytes(StandardCharsets.ISO_8859_1));
  }

  static NativeMemory memory(String name) {
    byte[] bytes = name.getBytes(StandardCharsets.ISO_8859_1);
    NativeMemory memory = NativeMemory.of(bytes.length + 1);
    memory.write(0, bytes);
    return memory;
  }

  private static long call(
      @Nullable Credentials as,
      long number,
      long directory,
      NativeMemory name,
      long third,
      long fourth)
      throws IOException {
    try {
      return ThreadCredentials.call(as, number, directory, name.address(), third, fourth);
    } finally {
      Reference.reachabilityFence(name);
    }
  }

  private static int openAt(
      UntrustedPaths paths, long directory, String name, int flags, int mode, Path shown)
      throws IOException {
    paths.requireWanted(shown);
    long result =
        call(paths.as, SystemCalls.OPENAT, directory, memory(name), flags | Libc.O_CLOEXEC, mode);
    if (result < 0) {
      throw Libc.failed(shown, "cannot be opened", (int) -result);
    }
    return (int) result;
  }

  /**
   * A name in a directory that is open.
   *
   * @param paths whose permissions are used
   * @param directory its descriptor, closed with this
   * @param name the name in it
   * @param path the path of both without links
   */
  record Place(UntrustedPaths paths, int directory, String name, Path path)
      implements AutoCloseable {

    OpenedFile open(int flags, int mode) throws IOException {
      int descriptor = openAt(paths, directory, name, flags, mode, path);
      try {
        return new OpenedFile(path, descriptor, FileNode.of(descriptor));
      } catch (IOException | RuntimeException | Error e) {
        Descriptors.close(descriptor);
        throw e;
      }
    }

    long call(long number, long third, long fourth) throws IOException {
      return PathWalk.call(paths.as, number, directory, memory(name), third, fourth);
    }

    void call(long number, long third, long fourth, String failed) throws IOException {
      long result = call(number, third, fourth);
      if (result < 0) {
        throw Libc.failed(path, failed, (int) -result);
      }
    }

    @Override
    public void close() {
      Descriptors.close(directory);
    }
  }
}
