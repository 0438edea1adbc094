package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.FileHold;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.UnreadableImage;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.time.IoFunction;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.spi.GpuPlugin;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A complete image. Opening it reads the manifest; {@link #verify} reads everything. Immutable; may
 * be shared between threads.
 *
 * <p>Restoring an image runs its content with the rights of this JVM. Therefore the directory, the
 * files and the manifest must belong to root or to the user of this JVM, and no other user may be
 * able to write to them; links are refused. All files are read through a descriptor of the
 * directory, which CRIU gets too: a user who can write to a directory above can move the image
 * away, but cannot make a restore read unverified files. These checks do not detect a process that
 * opened a file for writing before the image got its owner and mode (copy such an image instead of
 * changing its owner), a file server that lies about owners, and root. {@link ImageKey} is for
 * images from other places.
 *
 * @param path the directory
 * @param manifest the manifest
 * @param isMadeHere whether this JVM made the image. Another image in its place would not match the
 *     manifest
 */
public record ImageDirectory(Path path, ManifestData manifest, boolean isMadeHere) {

  public static final String IMAGES = ChecksummedFile.DIRECTORY;

  private static final Logger LOG = LoggerFactory.getLogger(ImageDirectory.class);

  /** Makes an image that was found at its path. */
  public ImageDirectory(Path path, ManifestData manifest) {
    this(path, manifest, false);
  }

  /**
   * Checks that no other user can have replaced the image.
   *
   * @throws ImageException with reason NOT_TRUSTED when a directory above it belongs to another
   *     user or can be written by others, and this JVM did not make the image
   */
  public void requireSafePlace() {
    if (isMadeHere) {
      return;
    }
    try {
      Path unused = DirectoryTrust.requirePlaceFor(Objects.requireNonNull(path.getParent()));
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.NOT_TRUSTED,
          "another user can have put another image at %s (%s): restore with expectProcess or expectLabel, or move the image to a directory that only this user can change"
              .formatted(path, ImagePlace.reason(e)),
          Failure.of("restore", manifest.pid()));
    }
  }

  /**
   * Checks which plugin of CRIU restores the GPU state.
   *
   * @param expected the plugin; null for none: the CUDA driver restores the GPU state
   * @param verb for exceptions
   * @throws ImageException with reason MISMATCH when it is another one
   */
  public void requirePlugin(@Nullable GpuPlugin expected, String verb) {
    String plugin = manifest.options().plugin();
    if (Objects.equals(plugin, expected == null ? null : expected.id())) {
      return;
    }
    String advice;
    if (plugin == null) {
      advice = "was made without a plugin of CRIU: open it with ProcessImage.open";
    } else if (plugin.equals(GpuPlugin.AMDGPU.id())) {
      advice =
          "is of an AMD process, made with CRIU's %s: open it with AmdImage.open".formatted(plugin);
    } else {
      advice =
          "was made with CRIU's %s: use the version of this library that wrote it"
              .formatted(plugin);
    }
    throw new ImageException(
        ImageException.Reason.MISMATCH,
        "the image %s %s; nothing was restored".formatted(path, advice),
        Failure.of(verb, manifest.pid()));
  }

  /**
   * Reads the manifest of an image.
   *
   * @param directory an image
   * @return the image, its files not yet verified
   * @throws ImageException with reason MISSING when the directory has no image; with reason FORMAT
   *     when another version wrote it; with reason CORRUPT when the manifest was altered; with
   *     reason NOT_TRUSTED when another user could have written it
   */
  public static ImageDirectory open(Path directory) {
    return open(directory, null);
  }

  /**
   * Reads the manifest of an image that was made with a key.
   *
   * @param directory an image
   * @param key the key it was made with; null for none
   * @return the image, its files not yet verified
   * @throws ImageException with reason MISSING when the directory has no image; with reason FORMAT
   *     when another version wrote it; with reason CORRUPT when the manifest was altered; with
   *     reason NOT_TRUSTED when another user could have written it, or it was made with another key
   *     or none
   */
  public static ImageDirectory open(Path directory, @Nullable ImageKey key) {
    return open(directory, key, false);
  }

  /**
   * Reads the manifest of an image that is to be copied. With a key, the image may belong to
   * another user: the copy belongs to this user, and its content is compared with a manifest that
   * only a holder of the key can have written.
   *
   * @param directory an image
   * @param key the key it was made with; null for none
   * @return the image, its files not yet verified
   * @throws ImageException with reason MISSING when the directory has no image; with reason FORMAT
   *     when another version wrote it; with reason CORRUPT when the manifest was altered; with
   *     reason NOT_TRUSTED when it was made with another key or none, or there is no key and
   *     another user could have written it
   */
  public static ImageDirectory openToCopy(Path directory, @Nullable ImageKey key) {
    return open(directory, key, key != null);
  }

  private static ImageDirectory open(Path directory, @Nullable ImageKey key, boolean ofAnyOwner) {
    Path path = directory.toAbsolutePath().normalize();
    try {
      if (!isThere(path) || !Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
        throw missing(
            Files.isSymbolicLink(path)
                ? "%s is a link to %s, and links are not followed: name the image itself"
                    .formatted(path, Files.readSymbolicLink(path))
                : path
                    + " is not a directory, so there is no image: name the directory of an image");
      }
      try (PinnedDirectory held = PinnedDirectory.openItself(path)) {
        if (!isThere(held.path().resolve(ManifestFile.NAME))) {
          throw missing(
              path
                  + " has no "
                  + ManifestFile.NAME
                  + ": it is not an image, or not a complete one");
        }
        return open(held, key, ofAnyOwner);
      }
    } catch (IOException e) {
      throw unreadable(path, path + " cannot be read: " + e, e);
    }
  }

  /**
   * Returns whether a file exists; links are not followed. {@link Files#exists} returns false for a
   * file without access.
   *
   * @throws AccessDeniedException when this user has no access
   */
  static boolean isThere(Path file) throws AccessDeniedException {
    try {
      BasicFileAttributes unused =
          Files.readAttributes(file, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
      return true;
    } catch (AccessDeniedException e) {
      throw e;
    } catch (IOException e) {
      return false;
    }
  }

  static ImageDirectory open(PinnedDirectory held, @Nullable ImageKey key) {
    return open(held, key, false);
  }

  private static ImageDirectory open(
      PinnedDirectory held, @Nullable ImageKey key, boolean ofAnyOwner) {
    try {
      if (!ofAnyOwner) {
        Ownership.of(held).requireOurs(held.name());
      }
      Path code = held.path().resolve(ManifestFile.CODE_NAME);
      ManifestData manifest =
          ManifestFile.read(
              held.name().resolve(ManifestFile.NAME),
              small(held, ManifestFile.NAME, ofAnyOwner),
              small(held, ManifestFile.SUM_NAME, ofAnyOwner),
              Files.exists(code, LinkOption.NOFOLLOW_LINKS)
                  ? small(held, ManifestFile.CODE_NAME, ofAnyOwner)
                  : null,
              key);
      return new ImageDirectory(held.name(), manifest);
    } catch (IOException e) {
      throw unreadable(held.name(), "the image cannot be read: " + held.explain(e), e);
    }
  }

  /** Reads a file of the manifest: the text, its checksum or its signature. */
  static byte[] small(PinnedDirectory held, String name, boolean ofAnyOwner) throws IOException {
    Path file = held.path().resolve(name);
    if (!ofAnyOwner) {
      Ownership.of(file).requireOurs(held.shown(file));
    }
    if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
        || Files.size(file) > ManifestFile.MAX_BYTES) {
      throw corrupt(
          held.shown(file) + " is not a regular file of a manifest's size: the image was altered",
          null);
    }
    try (RandomAccessFile in = Descriptors.readRegular(file)) {
      byte[] content = new byte[Math.toIntExact(Math.min(in.length(), ManifestFile.MAX_BYTES))];
      in.readFully(content);
      return content;
    }
  }

  /**
   * Returns the directory of the CRIU image files, which are not verified: see {@link #verified}.
   */
  public Path images() {
    return path.resolve(IMAGES);
  }

  /**
   * Reads every file and compares it with the manifest. An interrupt changes nothing; the thread
   * stays interrupted.
   *
   * @throws ImageException with reason CORRUPT when a file is missing, truncated, altered, or not
   *     in the manifest; with reason NOT_TRUSTED when another user could have written it; with
   *     reason MISSING when the image is gone
   */
  public void verify() {
    verify(() -> false);
  }

  /**
   * The same, which can be cancelled.
   *
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   */
  public void verify(BooleanSupplier isCancelled) {
    verified(WorkLimit.readingAtLength("verify", manifest.pid(), isCancelled)).close();
  }

  /**
   * Verifies the image as {@link #verified(WorkLimit)} does, without a limit.
   *
   * @return the image, to be closed
   * @throws ImageException with reason CORRUPT when a file is missing, truncated, altered, or not
   *     in the manifest, or the memory images are not as long as their page maps say; with reason
   *     NOT_TRUSTED when another user could have written it; with reason MISSING when the image is
   *     gone
   */
  public VerifiedImage verified() {
    return verified(WorkLimit.readingAtLength("verify", manifest.pid(), () -> false));
  }

  /**
   * Reads every file on all cores, compares it with the manifest, and keeps the directory open. A
   * restore does this first, because CRIU loops endlessly on a truncated memory image.
   *
   * @return the image, to be closed
   * @throws ImageException with reason CORRUPT when a file is missing, truncated, altered, or not
   *     in the manifest, or the memory images are not as long as their page maps say; with reason
   *     NOT_TRUSTED when another user could have written it; with reason MISSING when the image is
   *     gone
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   * @throws dev.gpuprocess.error.OperationTimedOutException when the time for reading is up
   */
  public VerifiedImage verified(WorkLimit reading) {
    return verified(reading, null);
  }

  /**
   * Verifies the image, and copies its memory files into host memory if there is enough.
   *
   * @param pool the pool of host memory; null for none
   * @return the image, to be closed
   */
  public VerifiedImage verified(WorkLimit reading, @Nullable HostMemoryPool pool) {
    return checked(
        held -> {
          Verification verification = new Verification(held, manifest, reading);
          verification.requireForm();
          MemoryCopies copies =
              pool == null ? MemoryCopies.NONE : MemoryCopies.of(manifest, held, pool);
          try {
            verification.requireContent(copies);
            return copies;
          } catch (IOException | RuntimeException | Error e) {
            copies.close();
            throw e;
          }
        });
  }

  /**
   * Compares the names and sizes of the files with the manifest, and keeps the directory open for a
   * copy.
   *
   * @param ofAnyOwner whether the image may belong to another user
   * @return the image, to be closed
   */
  VerifiedImage opened(WorkLimit reading, boolean ofAnyOwner) {
    return checked(
        held -> {
          new Verification(held, manifest, reading, ofAnyOwner).requireForm();
          return MemoryCopies.NONE;
        });
  }

  private VerifiedImage checked(IoFunction<PinnedDirectory, MemoryCopies> check) {
    PinnedDirectory held;
    try {
      if (!isThere(path) || !Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
        throw missing(path + " no longer exists");
      }
      held = PinnedDirectory.openItself(path);
    } catch (IOException e) {
      throw unreadable(path, path + " cannot be read: " + e, e);
    }
    FileHold hold = null;
    boolean isChecked = false;
    try {
      hold = inUse(held);
      VerifiedImage image = new VerifiedImage(held, hold, check.apply(held));
      isChecked = true;
      return image;
    } catch (IOException e) {
      throw unreadable(path, "the image cannot be read: " + held.explain(e), e);
    } finally {
      if (!isChecked) {
        new VerifiedImage(held, hold, MemoryCopies.NONE).close();
      }
    }
  }

  private static ImageException unreadable(Path path, String message, IOException e) {
    Failure failure = Failure.of("open", 0);
    return e instanceof AccessDeniedException denied
        ? UnreadableImage.denied(path, failure, denied)
        : UnreadableImage.of(message, failure, e);
  }

  /** Prevents the removal of the image; null if its file system has no locks. */
  private @Nullable FileHold inUse(PinnedDirectory held) throws IOException {
    Path file = held.path().resolve(ManifestFile.NAME);
    try {
      return FileHold.shared(file).orElseThrow(() -> missing(path + " is being removed"));
    } catch (NoSuchFileException gone) {
      throw missing(path + " no longer has " + ManifestFile.NAME + ": it was removed just now");
    } catch (IOException e) {
      if (Descriptors.areUsedUp(e)) {
        throw e;
      }
      LOG.debug("{} is read without a lock: {}", path, e.toString());
      return null;
    }
  }

  private static ImageException missing(String message) {
    return new ImageException(ImageException.Reason.MISSING, message, Failure.of("open", 0));
  }

  static ImageException corrupt(String message, @Nullable Throwable cause) {
    return new ImageException(ImageException.Reason.CORRUPT, message, Failure.of("open", 0), cause);
  }
}
