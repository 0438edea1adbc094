package dev.gpuprocess.options;

import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.file.Path;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * An existing namespace that a restored tree joins (CRIU {@code join-ns}). Immutable.
 *
 * @param kind which namespace of the tree
 * @param file the namespace, such as {@code /run/netns/blue} or {@code /proc/123/ns/net}
 * @param userAndGroup for {@link Namespace#USER} the ids that the tree runs as, such as {@code
 *     0,0}; null for others
 */
public record JoinedNamespace(Namespace kind, Path file, @Nullable String userAndGroup) {

  /**
   * Checks that ids come with a user namespace and with nothing else.
   *
   * @throws IllegalArgumentException when they do not
   */
  public JoinedNamespace {
    if ((kind == Namespace.USER) != (userAndGroup != null)) {
      throw new IllegalArgumentException(
          "user and group ids are needed for a user namespace and not allowed for any other");
    }
  }

  /**
   * A namespace by its file.
   *
   * @param kind any but {@link Namespace#USER}
   * @param file such as {@code /run/netns/blue}
   * @return the namespace
   */
  public static JoinedNamespace of(Namespace kind, Path file) {
    return new JoinedNamespace(kind, file, null);
  }

  /**
   * The namespace that a process is in.
   *
   * @param kind any but {@link Namespace#USER}
   * @param pid a living process
   * @return the namespace
   */
  public static JoinedNamespace ofProcess(Namespace kind, int pid) {
    String name = kind.name().toLowerCase(Locale.ROOT);
    return of(kind, ProcFs.file(pid, "ns", name));
  }

  /**
   * A user namespace.
   *
   * @param file such as {@code /proc/123/ns/user}
   * @param user the user id to run as in it
   * @param group the group id to run as in it
   * @return the namespace
   */
  public static JoinedNamespace user(Path file, int user, int group) {
    return new JoinedNamespace(Namespace.USER, file, user + "," + group);
  }
}
