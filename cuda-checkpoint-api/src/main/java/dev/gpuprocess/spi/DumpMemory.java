package dev.gpuprocess.spi;

import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.PreDumpMode;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Where the memory of a dump goes when it does not go whole into the images directory. Immutable. A
 * {@link dev.gpuprocess.ProcessImage} contains all of its memory, so only {@link CriuDriver} takes
 * these.
 *
 * @param trackMemory whether the kernel tracks from now on which pages are written, for a later
 *     dump that has this one as its parent (CRIU {@code track-mem}); always so with a parent
 * @param parentImages earlier images of the same tree, made while its memory was tracked: this dump
 *     contains only what was written since (CRIU {@code prev-images-dir}). Their directory,
 *     relative to the images directory, in which a link to it is created; null for none
 * @param autoDedup whether pages that this dump contains are removed from the parent images (CRIU
 *     {@code auto-dedup})
 * @param pageServer a page server of CRIU, on another host or on this one, that the memory pages
 *     are sent to while the other images stay here (CRIU {@code page-server}); null for none. The
 *     images directory then lacks {@code pages-*.img} and {@code pagemap-*.img}, which the server
 *     has: a restore needs both in one directory
 * @param lazyPages an address of this host and a port, where clients fetch the memory from the
 *     stopped tree (CRIU {@code lazy-pages}); null for none. The dump lasts until all of it was
 *     fetched, within its deadline, and the tree is gone then. {@link DumpListener#pagesReady}
 *     tells when it can be fetched. This surrenders the tree to the first client that connects:
 *     when that connection ends, CRIU considers the transfer complete and kills the tree, even if
 *     nothing was fetched. Only TLS or a private network keeps a stranger from doing that, and a
 *     receiver that dies half way takes the tree with it
 * @param preDumpMode how a pre-dump takes the memory (CRIU {@code pre-dump-mode}); no other dump
 *     uses it
 */
public record DumpMemory(
    boolean trackMemory,
    @Nullable Path parentImages,
    boolean autoDedup,
    @Nullable PageEndpoint pageServer,
    @Nullable PageEndpoint lazyPages,
    PreDumpMode preDumpMode) {

  /** All of the memory goes into the images directory. */
  public static final DumpMemory WHOLE =
      new DumpMemory(false, null, false, null, null, PreDumpMode.SPLICE);

  /**
   * Checks what goes together.
   *
   * @throws IllegalArgumentException when the parent is named by an absolute path (the images could
   *     not be moved), when both a page server and lazy pages are named, or either without a port
   */
  public DumpMemory {
    if (parentImages != null && parentImages.isAbsolute()) {
      throw new IllegalArgumentException(
          "the parent is named relative to the images directory, not by " + parentImages);
    }
    if (pageServer != null && lazyPages != null) {
      throw new IllegalArgumentException(
          "pages are sent or left to be fetched: name pageServer or lazyPages");
    }
    PageEndpoint endpoint = pageServer == null ? lazyPages : pageServer;
    if (endpoint != null && endpoint.port() == 0) {
      throw new IllegalArgumentException("the other end has to know the port of " + endpoint);
    }
    trackMemory |= parentImages != null;
  }

  /**
   * The same, with memory tracked or not.
   *
   * @param track whether the kernel tracks from now on which pages are written
   * @return a copy
   */
  public DumpMemory trackMemory(boolean track) {
    return new DumpMemory(track, parentImages, autoDedup, pageServer, lazyPages, preDumpMode);
  }

  /**
   * The difference to earlier images.
   *
   * @param parent their directory, relative to the images directory
   * @return a copy, with memory tracked
   * @throws IllegalArgumentException when the path is absolute
   */
  public DumpMemory parentImages(Path parent) {
    return new DumpMemory(trackMemory, parent, autoDedup, pageServer, lazyPages, preDumpMode);
  }

  /**
   * The same, with pages removed from the parent images or not.
   *
   * @param dedup whether pages that this dump contains are removed from the parent images
   * @return a copy
   */
  public DumpMemory autoDedup(boolean dedup) {
    return new DumpMemory(trackMemory, parentImages, dedup, pageServer, lazyPages, preDumpMode);
  }

  /**
   * The same, sent to a page server.
   *
   * @param server where it listens
   * @return a copy
   * @throws IllegalArgumentException without a port, or with {@link #lazyPages()}
   */
  public DumpMemory pageServer(PageEndpoint server) {
    return new DumpMemory(trackMemory, parentImages, autoDedup, server, lazyPages, preDumpMode);
  }

  /**
   * The same, left in the stopped tree until it is fetched.
   *
   * @param here an address of this host and a port
   * @return a copy
   * @throws IllegalArgumentException without a port, or with {@link #pageServer()}
   */
  public DumpMemory lazyPages(PageEndpoint here) {
    return new DumpMemory(trackMemory, parentImages, autoDedup, pageServer, here, preDumpMode);
  }

  /**
   * The same, taken by a pre-dump in another way.
   *
   * @param mode how
   * @return a copy
   */
  public DumpMemory preDumpMode(PreDumpMode mode) {
    return new DumpMemory(trackMemory, parentImages, autoDedup, pageServer, lazyPages, mode);
  }
}
