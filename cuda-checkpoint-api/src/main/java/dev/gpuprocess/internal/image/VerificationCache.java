package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.UnreadableImage;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.MemoryFile;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Caches verification results until an image's files change, because images are large. Safe for use
 * by several threads.
 */
public final class VerificationCache {

  private static final Logger LOG = LoggerFactory.getLogger(VerificationCache.class);

  private final Map<Path, Result> results = new ConcurrentHashMap<>();
  private final BiConsumer<ImageDirectory, BooleanSupplier> verification;

  public VerificationCache() {
    this(ImageDirectory::verify);
  }

  VerificationCache(BiConsumer<ImageDirectory, BooleanSupplier> verification) {
    this.verification = verification;
  }

  private record Result(Fingerprint fingerprint, Optional<ImageException> fault) {}

  /**
   * The attributes by which a changed, replaced, added or removed file of an image is noticed
   * without reading files.
   *
   * @param attributes those of the files and directories, in order
   */
  private record Fingerprint(List<Map<String, Object>> attributes) {

    static Fingerprint of(ImageDirectory image) {
      List<String> names = new ArrayList<>(List.of("", ManifestFile.NAME, ManifestFile.SUM_NAME));
      names.add(ChecksummedFile.DIRECTORY);
      if (!image.manifest().memoryFiles().isEmpty()) {
        names.add(MemoryFile.DIRECTORY);
      }
      image.manifest().files().forEach(file -> names.add(file.path()));
      List<Map<String, Object>> attributes = new ArrayList<>();
      try {
        for (String name : names) {
          attributes.add(
              Files.readAttributes(
                  image.path().resolve(name),
                  "unix:ino,uid,mode,size,ctime",
                  LinkOption.NOFOLLOW_LINKS));
        }
      } catch (NoSuchFileException e) {
        throw new ImageException(
            ImageException.Reason.MISSING,
            "%s is no longer a complete image: %s does not exist"
                .formatted(image.path(), e.getFile()),
            Failure.of("verify", 0),
            e);
      } catch (IOException e) {
        throw UnreadableImage.of(
            "the image " + image.path() + " cannot be read: " + e, Failure.of("verify", 0), e);
      }
      return new Fingerprint(List.copyOf(attributes));
    }
  }

  /** Records that an image verifies, because its content was just checksummed and synced. */
  public void written(ImageDirectory image) {
    try {
      remember(image, Fingerprint.of(image), Optional.empty());
    } catch (ImageException e) {
      LOG.debug("the verification of {} is not cached: {}", image.path(), e.getMessage());
    }
  }

  /**
   * Verifies an image, unless the result is known.
   *
   * @return the fault of the image; empty when it verifies
   * @throws ImageException when it cannot be verified, because too many files are open
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   */
  public Optional<ImageException> fault(ImageDirectory image, BooleanSupplier isCancelled) {
    Fingerprint fingerprint;
    try {
      fingerprint = Fingerprint.of(image);
    } catch (ImageException e) {
      if (!isFaultOfImage(e)) {
        throw e;
      }
      return Optional.of(e);
    }
    Result last = results.get(image.path());
    return last != null && last.fingerprint().equals(fingerprint)
        ? last.fault()
        : verified(image, fingerprint, isCancelled);
  }

  /** Verifies an image in any case, and caches the result. */
  public Optional<ImageException> faultNow(ImageDirectory image) {
    return verified(image, Fingerprint.of(image), () -> false);
  }

  private Optional<ImageException> verified(
      ImageDirectory image, Fingerprint before, BooleanSupplier isCancelled) {
    Optional<ImageException> fault = Optional.empty();
    try {
      verification.accept(image, isCancelled);
    } catch (ImageException e) {
      if (!isFaultOfImage(e)) {
        throw e;
      }
      fault = Optional.of(e);
    }
    remember(image, before, fault);
    return fault;
  }

  private void remember(
      ImageDirectory image, Fingerprint fingerprint, Optional<ImageException> fault) {
    results.put(image.path(), new Result(fingerprint, fault));
  }

  /** Forgets the results of all other images. */
  void retain(Collection<Path> images) {
    results.keySet().retainAll(images);
  }

  /** Returns whether an exception means that the image is unusable, not only unreadable now. */
  public static boolean isFaultOfImage(ImageException e) {
    return switch (e.reason()) {
      case CORRUPT, MISSING, FORMAT, NOT_TRUSTED -> true;
      case JOB_FILE -> false; // not about the image
      default -> e.getCause() instanceof AccessDeniedException;
    };
  }
}
