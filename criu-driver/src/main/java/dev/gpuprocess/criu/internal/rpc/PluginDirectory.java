package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.process.ImageDirectories;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The directory from which CRIU loads plugins for one request, below the work directory. CRIU loads
 * every {@code .so} file in its plugin directory, so the directory has one link, to the requested
 * plugin.
 */
final class PluginDirectory implements AutoCloseable {

  /** No plugin: the command line says so. */
  static final PluginDirectory NONE = new PluginDirectory(null, Optional.empty());

  private static final Logger LOG = LoggerFactory.getLogger(PluginDirectory.class);

  private static final String NAME = "plugins";

  private final @Nullable Path link;
  private final Optional<String> line;

  private PluginDirectory(@Nullable Path link, Optional<String> line) {
    this.link = link;
    this.line = line;
  }

  /**
   * Creates the directory.
   *
   * @param work the work directory of the request
   * @param directories the same as CRIU sees it
   * @param plugin the file
   */
  static PluginDirectory make(Path work, ImageDirectories directories, Path plugin)
      throws IOException {
    Path link = Files.createDirectories(work.resolve(NAME)).resolve(plugin.getFileName());
    Files.deleteIfExists(link);
    Files.createSymbolicLink(link, plugin.toRealPath());
    return new PluginDirectory(link, Optional.of("libdir " + directories.seenByCriu(NAME)));
  }

  /** Returns the line in CRIU's configuration, which precedes the command line. */
  Optional<String> line() {
    return line;
  }

  /** Removes the directory when CRIU has ended; a failure is only logged. */
  @Override
  public void close() {
    if (link == null) {
      return;
    }
    try {
      Files.delete(link);
      Files.delete(link.resolve("..").normalize());
    } catch (IOException e) {
      LOG.warn("{} could not be removed: {}", link, e.toString());
    }
  }
}
