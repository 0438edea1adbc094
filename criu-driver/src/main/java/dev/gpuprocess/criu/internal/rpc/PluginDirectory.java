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
 * The directory that CRIU loads plugins from for one request, below the work directory. CRIU loads
 * everything in its plugin directory whose name ends in {@code .so}, so there is one link in it, to
 * the plugin that was asked for.
 */
final class PluginDirectory implements AutoCloseable {

  /** None is loaded: the command line says so. */
  static final PluginDirectory NONE = new PluginDirectory(null, "");

  private static final Logger LOG = LoggerFactory.getLogger(PluginDirectory.class);

  private static final String NAME = "plugins";

  private final @Nullable Path link;
  private final String line;

  private PluginDirectory(@Nullable Path link, String line) {
    this.link = link;
    this.line = line;
  }

  /**
   * Makes it.
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
    return new PluginDirectory(link, "libdir " + directories.seenByCriu(NAME));
  }

  /** What CRIU's configuration says of it, which goes before the command line. */
  Optional<String> line() {
    return Optional.of(line).filter(text -> !text.isEmpty());
  }

  /** CRIU has ended. What it did stands, whatever becomes of the directory. */
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
