package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.UnreadableImage;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Remembers of each image whether it verified when it was read last, for as long as nobody touches
 * its files: images are large. Safe for use by several threads.
 */
public final class KnownImages {

  private static final Logger LOG = LoggerFactory.getLogger(KnownImages.class);

  private final Map<Path, Known> known = new ConcurrentHashMap<>();
  private final Consumer<ImageDirectory> verification;

  /** Knows none. */
  public KnownImages() {
    this(ImageDirectory::verify);
  }

  KnownImages(Consumer<ImageDirectory> verification) {
    this.verification = verification;
  }

  private record Known(ImageStamp stamp, Optional<ImageException> fault) {}

  /** An image whose content was summed and synced just now. */
  public void written(ImageDirectory image) {
    try {
      remember(image, stamp(image), Optional.empty());
    } catch (ImageException e) {
      LOG.debug("{} will be read when somebody asks: {}", image.path(), e.getMessage());
    }
  }

  /**
   * Tells whether an image verifies; reads it only when that is not known.
   *
   * @return what is wrong with it; empty when nothing is
   * @throws ImageException when it cannot be told, as too many files are open
   */
  public Optional<ImageException> fault(ImageDirectory image) {
    ImageStamp stamp;
    try {
      stamp = stamp(image);
    } catch (ImageException e) {
      if (e.reason() != ImageException.Reason.MISSING) {
        throw e;
      }
      return Optional.of(e);
    }
    Known last = known.get(image.path());
    return last != null && last.stamp().equals(stamp) ? last.fault() : read(image, stamp);
  }

  /** The same, but reads it in any case. */
  public Optional<ImageException> faultNow(ImageDirectory image) {
    return read(image, stamp(image));
  }

  private Optional<ImageException> read(ImageDirectory image, ImageStamp before) {
    Optional<ImageException> fault = Optional.empty();
    try {
      verification.accept(image);
    } catch (ImageException e) {
      if (!isOfTheImage(e)) {
        throw e;
      }
      fault = Optional.of(e);
    }
    remember(image, before, fault);
    return fault;
  }

  private void remember(ImageDirectory image, ImageStamp stamp, Optional<ImageException> fault) {
    known.put(image.path(), new Known(stamp, fault));
  }

  /** Forgets all but these. */
  void retain(Collection<Path> images) {
    known.keySet().retainAll(images);
  }

  private static ImageStamp stamp(ImageDirectory image) {
    try {
      return ImageStamp.of(image);
    } catch (NoSuchFileException e) {
      throw new ImageException(
          ImageException.Reason.MISSING,
          "%s is no complete image any more: %s does not exist"
              .formatted(image.path(), e.getFile()),
          Failure.of("verify", 0),
          e);
    } catch (IOException e) {
      throw UnreadableImage.of(
          "the image " + image.path() + " cannot be read: " + e, Failure.of("verify", 0), e);
    }
  }

  /** Whether an error says that the image is no good, and not only that it cannot be told. */
  public static boolean isOfTheImage(ImageException e) {
    return switch (e.reason()) {
      case CORRUPT, MISSING, FORMAT, NOT_TRUSTED -> true;
      case JOB_FILE -> false; // says nothing about the image
      default -> e.getCause() instanceof AccessDeniedException;
    };
  }
}
