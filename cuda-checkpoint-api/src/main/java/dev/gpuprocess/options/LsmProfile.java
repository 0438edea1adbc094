package dev.gpuprocess.options;

import java.util.Locale;

/**
 * The security label of a restored tree, in place of the one it had (CRIU {@code lsm-profile}).
 * Immutable.
 *
 * @param module which security module
 * @param label its profile or context
 */
public record LsmProfile(Module module, String label) {

  /** The security modules that CRIU knows. */
  public enum Module {
    /** AppArmor; the label is a profile. */
    APPARMOR,
    /** SELinux; the label is a context. */
    SELINUX
  }

  /**
   * The text that CRIU reads.
   *
   * @return such as {@code apparmor:docker-default}
   */
  public String text() {
    return module.name().toLowerCase(Locale.ROOT) + ":" + label;
  }
}
