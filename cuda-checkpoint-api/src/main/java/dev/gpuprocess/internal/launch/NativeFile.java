package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PacketSocketPair;
import dev.gpuprocess.internal.text.NativePath;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A compiled program or library of this jar, installed when first needed, in a directory that no
 * other user can enter. Its name has a checksum of its content. It stays when this JVM exits, as
 * processes that use it do, and their images.
 *
 * @param path its path, also before it is installed
 * @param content its bytes
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
public record NativeFile(Path path, byte[] content) {

  /**
   * The program that starts and guards processes, takes their requests, and holds their terminals.
   */
  public static final String LAUNCHER = "job";

  static final String CUDA_CALL = "cuda-call";
  static final String FORK_HANDLER = "fork-handler.so";

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  private static final String RESOURCES = "/dev/gpuprocess/internal/native/linux-x86_64/";
  private static final int SUM_BYTES = 16;
  private static final Set<PosixFilePermission> EXECUTABLE =
      PosixFilePermissions.fromString("rwx------");
  private static final FileAttribute<Set<PosixFilePermission>> ONLY_OWNER =
      PosixFilePermissions.asFileAttribute(EXECUTABLE);

  /** Written and read under the monitor of this class. */
  private static @Nullable Path installedIn;

  /**
   * Installs a file, if it is not there: another program may have removed it since the last call.
   *
   * @param name such as {@link #LAUNCHER}
   * @return its path
   * @throws IOException when no directory for it can be made
   */
  public static synchronized Path installed(String name) throws IOException {
    Path known = installedIn;
    IOException why = new IOException("there is no home directory and no temporary one");
    for (Path candidate : known == null ? candidates() : new Path[] {known}) {
      try {
        NativeFile file = of(candidate, name);
        file.install();
        if (known == null && !Files.isWritable(candidate)) {
          // Installed earlier, on a file system that is read-only now: sockets are made there, too.
          why = new IOException(candidate + " cannot be written");
          continue;
        }
        if (file.isUsable() && isListable(candidate)) {
          installedIn = candidate;
          return file.path();
        }
        why =
            new IOException(
                "programs cannot be started from %s, as on a file system that is mounted noexec: set java.io.tmpdir to another directory"
                    .formatted(candidate));
      } catch (IOException e) {
        LOG.debug("programs are not installed in {}", candidate, e);
        why = e;
      }
    }
    installedIn = null;
    throw why;
  }

  /** The home directory is first: temporary files are removed when they are old. */
  private static Path[] candidates() {
    return Stream.of(
            at("user.home", ".cache/gpuprocess/native"),
            at("java.io.tmpdir", "gpuprocess-native-" + System.getProperty("user.name")))
        .flatMap(Optional::stream)
        .toArray(Path[]::new);
  }

  private static Optional<Path> at(String property, String below) {
    return Optional.ofNullable(System.getProperty(property))
        .map(Path::of)
        .filter(Path::isAbsolute)
        .map(above -> above.resolve(below));
  }

  /** {@code LD_PRELOAD} is a list that is separated by spaces or colons. */
  private static boolean isListable(Path path) {
    return path.toString().chars().noneMatch(each -> each == ' ' || each == ':');
  }

  /**
   * Starts a program of this jar as a child with a socket to this JVM.
   *
   * @param arguments all arguments, the first of which is the name of the program
   * @param variables selects the environment variables that the child inherits
   * @param descriptors the descriptors 0, 1, 2 and so on of the child
   * @param socket the socket whose other end is one of the descriptors
   * @return the pid of the child
   */
  static int start(
      Path program,
      List<byte[]> arguments,
      Predicate<String> variables,
      List<Integer> descriptors,
      PacketSocketPair socket)
      throws NativeCallException {
    int pid = ChildStart.start(program, arguments, variables, descriptors);
    socket.closeTheirs();
    return pid;
  }

  /** Returns an argument of a program. */
  static byte[] argument(String ascii) {
    return ascii.getBytes(StandardCharsets.US_ASCII);
  }

  /** Returns the file of this jar with a name such as {@code job}, for a directory. */
  static NativeFile of(Path directory, String name) throws IOException {
    byte[] content = resource(name);
    int dot = name.lastIndexOf('.');
    String stem = dot < 0 ? name : name.substring(0, dot);
    String suffix = dot < 0 ? "" : name.substring(dot);
    String file = "gpuprocess-%s-%s%s".formatted(stem, sum(content), suffix);
    return new NativeFile(directory.resolve(file), content);
  }

  private static byte[] resource(String name) throws IOException {
    if (!System.getProperty("os.arch").equals("amd64")) {
      throw new IOException("processes can be launched on Linux on x86_64 only");
    }
    try (InputStream in = NativeFile.class.getResourceAsStream(RESOURCES + name)) {
      if (in == null) {
        throw new FileNotFoundException("this jar was built without " + RESOURCES + name);
      }
      return in.readAllBytes();
    }
  }

  /** Returns the first half of the SHA-256 of a content. */
  static String sum(byte[] content) {
    try {
      byte[] whole = MessageDigest.getInstance("SHA-256").digest(content);
      return HexFormat.of().formatHex(whole, 0, SUM_BYTES);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }

  /**
   * Creates the file, complete or not at all, also if several JVMs do so at the same time. Does
   * nothing if it is there.
   */
  void install() throws IOException {
    Path directory = Objects.requireNonNull(path.getParent());
    makeDirectory(directory);
    if (isInstalled()) {
      return;
    }
    Path partial = Files.createTempFile(directory, "half", "", ONLY_OWNER);
    try {
      Files.write(partial, content);
      Files.setPosixFilePermissions(partial, EXECUTABLE);
      Files.move(
          partial, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Files.deleteIfExists(partial);
    }
  }

  private boolean isInstalled() throws IOException {
    return Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)
        && Arrays.equals(Files.readAllBytes(path), content)
        && Files.getPosixFilePermissions(path).equals(EXECUTABLE);
  }

  /** Creates directories with the rights of the owner only, from the beginning. */
  private static void makeDirectory(Path directory) throws IOException {
    if (!Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)) {
      Path above = directory.getParent();
      if (above != null && Files.notExists(above)) {
        makeDirectory(above);
      }
      DirectoryTrust.requirePlaceFor(directory);
      try {
        Files.createDirectory(directory, ONLY_OWNER);
      } catch (FileAlreadyExistsException another) {
        // Created by another JVM at the same time; its owner is checked next.
      }
    }
    DirectoryTrust.require(directory);
  }

  /** Returns whether the kernel runs code from there: not if it is mounted noexec. */
  boolean isUsable() {
    return Files.isExecutable(path) && NativePath.survivesAsText(path);
  }
}
