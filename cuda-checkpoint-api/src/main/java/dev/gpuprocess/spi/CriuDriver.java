package dev.gpuprocess.spi;

import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.dumped.DumpedTree;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * What this library needs of CRIU.
 *
 * <p>Found through {@link java.util.ServiceLoader}; an implementation is cheap to create and looks
 * for CRIU when the first method is called. All methods may be called from any thread, also at the
 * same time. Every method is bounded by a deadline. All throw {@link
 * dev.gpuprocess.error.CriuUnavailableException} when there is no CRIU, and {@link
 * dev.gpuprocess.error.CriuTooOldException} when the one found is too old for this kernel.
 */
public interface CriuDriver {

  /**
   * The version of the CRIU in use.
   *
   * @return its version
   */
  CriuVersion version();

  /**
   * Asks CRIU whether this kernel has what it needs ({@code criu check}).
   *
   * @throws dev.gpuprocess.error.CriuException when it does not, with CRIU's reason
   */
  void check();

  /**
   * Asks CRIU what this kernel has of what not every kernel has.
   *
   * @return what it has; empty when this driver cannot tell
   * @throws dev.gpuprocess.error.CriuException when CRIU gives no answer
   */
  default Optional<Set<CriuFeature>> features() {
    return Optional.empty();
  }

  /**
   * Says what would stop a dump of a process tree, without touching it: it only looks at what the
   * kernel tells of it. A finding with a {@linkplain Finding#resource() resource} that is a problem
   * is certain, as long as the tree keeps the resource; other findings may be less.
   *
   * @param process the root of the tree
   * @param options how it would be dumped; the findings name those that would help, and the look
   *     takes as long as the dump may at most
   * @return empty when nothing speaks against a dump, or when this driver cannot tell
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline of the options passed
   */
  default List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return List.of();
  }

  /**
   * Writes a process tree into the images directory. When this returns, the images are complete and
   * the tree is gone, or was killed and is being torn down, and as a rule its pid is free (or it
   * runs on, when the request says so). When it throws, the tree runs on, unless the exception says
   * otherwise.
   *
   * @param request what to dump, where to, and how
   * @param listener told at each stage; throwing vetoes
   * @return what CRIU measured
   * @throws dev.gpuprocess.error.CriuException when CRIU could not dump, with its first real error
   * @throws dev.gpuprocess.error.DiskFullException when the file system had no room
   * @throws dev.gpuprocess.error.NoSuchProcessException when the process is gone
   * @throws dev.gpuprocess.error.ProcessStoppedException when a process of the tree is in a frozen
   *     control group; it was not touched
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   */
  DumpReport dump(DumpRequest request, DumpListener listener);

  /**
   * Brings a process tree back from its images. When this returns, the tree runs with the pids it
   * had. When it throws, nothing of it is left.
   *
   * @param request where the images are, and how to restore
   * @param listener told at each stage; throwing before the tree runs vetoes
   * @return who was restored and what CRIU measured
   * @throws dev.gpuprocess.error.CriuException when CRIU could not restore, with its first real
   *     error
   * @throws dev.gpuprocess.error.PidTakenException when the pid belongs to another process
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   */
  RestoreReport restore(RestoreRequest request, RestoreListener listener);

  /**
   * Reads what images hold, without CRIU and without touching a process. Needs no more rights than
   * to read the files.
   *
   * @param images the directory with the image files; also with CRIU's statistics, if there are any
   * @return the tree
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, cut off or altered
   */
  DumpedTree describe(Path images);
}
