package dev.gpuprocess.spi;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;

/**
 * What this library needs from CRIU.
 *
 * <p>Found through {@link java.util.ServiceLoader}; an implementation is cheap to create and looks
 * for CRIU when the first method is called. All methods may be called from any thread, also at the
 * same time. Every method is bounded by a deadline. All throw {@link
 * dev.gpuprocess.error.MachineUnfitException} with reason NO_CRIU when there is no CRIU, and with
 * reason CRIU_TOO_OLD when the one found is too old for this kernel.
 */
public interface CriuDriver {

  /**
   * The version of the CRIU in use.
   *
   * @return such as {@code 4.2.1}
   */
  String version();

  /**
   * Asks CRIU whether this kernel has what it needs ({@code criu check}).
   *
   * @throws dev.gpuprocess.error.CriuException when it does not, with CRIU's reason
   */
  void check();

  /**
   * Finds what would prevent a dump of a process tree, without touching it: it only reads what the
   * kernel shows of it. A problem with a {@linkplain Finding#resource() resource} is certain as
   * long as the tree keeps the resource; other findings may not be.
   *
   * @param process the root of the tree
   * @param options how it would be dumped; the findings name the options that would help; their
   *     deadline bounds this call too
   * @return empty when nothing prevents a dump, or when this driver cannot tell
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline of the options passed
   */
  default List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return List.of();
  }

  /**
   * Returns whether a restore by this driver can take descriptors of this JVM ({@link
   * dev.gpuprocess.options.CriuSwitch#INHERIT_FD}). A dump makes images that need them only if it
   * can.
   *
   * @return false when it cannot, or when this driver cannot tell
   */
  default boolean takesDescriptors() {
    return false;
  }

  /**
   * Where a plugin is that a request may name. Only looks for the file.
   *
   * @param plugin which one
   * @return its file
   * @throws FixAndRetryException with reason UNSUPPORTED_OPTION when this driver loads no plugins
   * @throws dev.gpuprocess.error.MachineUnfitException with reason PLUGIN_MISSING when it is not
   *     there, or not safe to load
   */
  default Path locate(GpuPlugin plugin) {
    throw new FixAndRetryException(
        FixAndRetryException.Reason.UNSUPPORTED_OPTION,
        "this CRIU driver loads no plugins, and %s is needed: use one that does (module dev.gpuprocess.criu)"
            .formatted(plugin.id()),
        Failure.of("find plugin", 0));
  }

  /**
   * Writes a process tree into the images directory. When this returns, the images are complete and
   * the tree is gone, or was killed and is being torn down, and its pid is usually free (or the
   * tree runs on, if the request says so). When it throws, the tree runs on, unless the exception
   * says otherwise.
   *
   * @param request what to dump, where to, and how
   * @param listener notified at each stage; vetoes by throwing
   * @return what CRIU measured
   * @throws dev.gpuprocess.error.CriuException when CRIU could not dump, with its first real error
   * @throws dev.gpuprocess.error.ImageException with reason DISK_FULL when the file system had no
   *     room
   * @throws dev.gpuprocess.error.NoSuchProcessException when the process is gone
   * @throws dev.gpuprocess.error.FixAndRetryException with reason PROCESS_STOPPED when a process of
   *     the tree is in a frozen control group; it was not touched
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   */
  DumpReport dump(DumpRequest request, DumpListener listener);

  /**
   * Brings a process tree back from its images. When this returns, the tree runs with the pids it
   * had. When it throws, nothing of it is left.
   *
   * @param request where the images are, and how to restore
   * @param listener notified at each stage; vetoes by throwing before the tree runs
   * @return the restored process, and what CRIU measured
   * @throws dev.gpuprocess.error.CriuException when CRIU could not restore, with its first real
   *     error
   * @throws dev.gpuprocess.error.PidTakenException when the pid belongs to another process
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   */
  RestoreReport restore(RestoreRequest request, RestoreListener listener);

  /**
   * Reads what images contain, without CRIU and without touching a process. Needs only the right to
   * read the files.
   *
   * @param images the directory with the image files and, if there are any, CRIU's statistics
   * @return the tree
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated or altered
   */
  DumpedTree describe(Path images);
}
