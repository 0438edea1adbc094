package dev.gpuprocess.image;

import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A process of the tree in an image. Immutable.
 *
 * @param pid the pid that it had, and will have again; of an {@linkplain Manifest#isolated
 *     isolated} process that in its own pid namespace
 * @param parent its parent's pid, counted in the same way; 0 of the root
 * @param controllerPid the pid at which the controller that made the image saw it, where that is
 *     another; null otherwise
 * @param name its command name, which it may have chosen, with control characters escaped
 * @param role what it was there for
 * @param rank of a CUDA process its number among the ranks of a distributed job, as the environment
 *     says that it was executed with; null where that says none
 */
public record ImageProcess(
    int pid,
    int parent,
    @Nullable Integer controllerPid,
    String name,
    Role role,
    @Nullable Integer rank) {

  /** The most processes that an image names: parents before children, the others are left out. */
  public static final int MOST = 5_000;

  /** The longest name, in characters: 15 bytes in the kernel, of which each may be escaped. */
  public static final int LONGEST_NAME = 90;

  private static final Pattern NAME =
      Pattern.compile("[^\\p{Cntrl}]{0,%s}".formatted(LONGEST_NAME));

  /** What a process of a tree is there for, as far as the driver and the tree tell. */
  public enum Role {
    /** The root of a tree in which others use CUDA: a launcher, a shell, the first process. */
    LAUNCHER,
    /** It uses CUDA. */
    CUDA,
    /** It does not use CUDA and descends from a process that does, as a data loader. */
    WORKER,
    /** Any other. */
    OTHER
  }

  /**
   * Checks every part.
   *
   * @throws IllegalArgumentException when a part is impossible
   */
  public ImageProcess {
    if (pid < 1
        || parent < 0
        || parent == pid
        || (controllerPid != null && controllerPid < 1)
        || (rank != null && rank < 0)
        || role == null
        || !NAME.matcher(name).matches()) {
      throw new IllegalArgumentException("an image cannot have the process " + pid);
    }
  }
}
