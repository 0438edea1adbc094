package dev.gpuprocess.spi;

import dev.gpuprocess.options.PageEndpoint;
import org.jspecify.annotations.Nullable;

/**
 * Where the memory of a dump goes when it does not go into the images directory. Immutable. A
 * {@link dev.gpuprocess.ProcessImage} contains its memory, so only {@link CriuDriver} takes these.
 *
 * @param pageServer a page server of CRIU, on another host or on this one, that the memory pages
 *     are sent to while the other images stay here (CRIU {@code page-server}); null for none. The
 *     images directory then lacks {@code pages-*.img} and {@code pagemap-*.img}, which the server
 *     has: a restore needs both in one directory
 */
public record DumpMemory(@Nullable PageEndpoint pageServer) {

  /** All of the memory goes into the images directory. */
  public static final DumpMemory WHOLE = new DumpMemory(null);

  /**
   * Checks the endpoint.
   *
   * @throws IllegalArgumentException for a page server without a port
   */
  public DumpMemory {
    if (pageServer != null && pageServer.port() == 0) {
      throw new IllegalArgumentException("the other end has to know the port of " + pageServer);
    }
  }
}
