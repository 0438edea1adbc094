package dev.gpuprocess.options;

import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What dumps and restores of a process tree have in common. Immutable. */
public abstract sealed class TreeOptions permits DumpOptions, RestoreOptions {

  /** A private copy, so it never changes. */
  private final Builder<?> set;

  TreeOptions(Builder<?> set) {
    this.set = set;
    refuse(
        tcpEstablished() && tcpClose(),
        "connections are kept or closed: set tcpEstablished or tcpClose");
    refuse(
        unprivileged() && cgroups().isPresent(),
        "cgroups cannot be handled without the rights of root: set unprivileged or cgroups");
  }

  static void refuse(boolean conflict, String why) {
    if (conflict) {
      throw new IllegalStateException(why);
    }
  }

  /** {@return whether connected TCP sockets are kept, with their state} */
  public final boolean tcpEstablished() {
    return set.tcpEstablished;
  }

  /** {@return whether connected TCP sockets come back closed} */
  public final boolean tcpClose() {
    return set.tcpClose;
  }

  /** {@return whether UNIX sockets may be connected to the outside of the tree} */
  public final boolean externalUnixSockets() {
    return set.externalUnixSockets;
  }

  /** {@return whether file locks are kept} */
  public final boolean fileLocks() {
    return set.fileLocks;
  }

  /** {@return resources that the tree uses but that are not part of it} */
  public final List<External> external() {
    return set.external;
  }

  /** {@return how mounts are handled} */
  public final Mounts mounts() {
    return set.mounts;
  }

  /** {@return how cgroups are handled; empty for CRIU's default} */
  public final Optional<Cgroups> cgroups() {
    return Optional.ofNullable(set.cgroups);
  }

  /** {@return whether the tree's own network namespace comes back empty} */
  public final boolean emptyNetworkNamespace() {
    return set.emptyNetworkNamespace;
  }

  /** {@return which properties of the CPU must match; empty for the default} */
  public final Optional<CpuCheck> cpuCheck() {
    return Optional.ofNullable(set.cpuCheck);
  }

  /** {@return how open files are recognized; empty for CRIU's default} */
  public final Optional<FileValidation> fileValidation() {
    return Optional.ofNullable(set.fileValidation);
  }

  /** {@return whether a tree with uprobes in it is accepted} */
  public final boolean allowUprobes() {
    return set.allowUprobes;
  }

  /** {@return whether the tasks end up stopped} */
  public final boolean leaveStopped() {
    return set.leaveStopped;
  }

  /** {@return whether CRIU works without the rights of root} */
  public final boolean unprivileged() {
    return set.unprivileged;
  }

  /** {@return how much CRIU logs, 1 to 4} */
  public final int logLevel() {
    return set.logLevel;
  }

  /** {@return how long CRIU may take before it is killed} */
  public final Duration deadline() {
    return set.deadline;
  }

  /** {@return what ends the call early} */
  public final Optional<Cancellation> cancellation() {
    return Optional.ofNullable(set.cancellation);
  }

  /**
   * Builds options. Options that exclude each other are refused when they are built. Not for use by
   * several threads.
   *
   * @param <B> the builder's own type
   */
  public abstract static sealed class Builder<B extends Builder<B>> extends OptionsBuilder<B>
      permits DumpOptions.Builder, RestoreOptions.Builder {

    private boolean tcpEstablished;
    private boolean tcpClose;
    private boolean externalUnixSockets;
    private boolean fileLocks;
    private List<External> external = List.of();
    private Mounts mounts = Mounts.STRICT;
    private @Nullable Cgroups cgroups;
    private boolean emptyNetworkNamespace;
    private @Nullable CpuCheck cpuCheck;
    private @Nullable FileValidation fileValidation;
    private boolean allowUprobes;
    private boolean leaveStopped;
    private boolean unprivileged;
    private int logLevel = 3;
    private Duration deadline = Duration.ofMinutes(10);
    private @Nullable Cancellation cancellation;

    Builder() {}

    abstract B self();

    static <T> List<T> with(List<T> before, List<T> more) {
      return Stream.concat(before.stream(), more.stream()).toList();
    }

    /**
     * Whether connected TCP sockets are kept, with their state (CRIU {@code tcp-established}).
     * Excludes {@link #tcpClose}.
     *
     * @param tcpEstablished the new value; false by default
     * @return this builder
     */
    public B tcpEstablished(boolean tcpEstablished) {
      this.tcpEstablished = tcpEstablished;
      return self();
    }

    /**
     * Whether connected TCP sockets come back closed (CRIU {@code tcp-close}). Excludes {@link
     * #tcpEstablished}.
     *
     * @param tcpClose the new value; false by default
     * @return this builder
     */
    public B tcpClose(boolean tcpClose) {
      this.tcpClose = tcpClose;
      return self();
    }

    /**
     * Whether UNIX sockets may be connected to the outside of the tree (CRIU {@code ext-unix-sk}).
     * Connected stream sockets need {@link External#unixSocket} instead.
     *
     * @param externalUnixSockets the new value; false by default
     * @return this builder
     */
    public B externalUnixSockets(boolean externalUnixSockets) {
      this.externalUnixSockets = externalUnixSockets;
      return self();
    }

    /**
     * Whether file locks are kept; safe only if all holders are in the tree (CRIU {@code
     * file-locks}).
     *
     * @param fileLocks the new value; false by default
     * @return this builder
     */
    public B fileLocks(boolean fileLocks) {
      this.fileLocks = fileLocks;
      return self();
    }

    /**
     * Adds resources that the tree uses but that are not part of it (CRIU {@code external}).
     *
     * @param more in addition to what was added before; none by default
     * @return this builder
     */
    public B external(External... more) {
      this.external = with(external, List.of(more));
      return self();
    }

    /**
     * How the mounts of a tree with a mount namespace of its own are handled.
     *
     * @param mounts the new value; {@link Mounts#STRICT} by default
     * @return this builder
     */
    public B mounts(Mounts mounts) {
      this.mounts = mounts;
      return self();
    }

    /**
     * How cgroups are handled. Excludes {@link #unprivileged}.
     *
     * @param cgroups the new value; by default CRIU decides, which means {@link
     *     dev.gpuprocess.options.CgroupMode#SOFT}
     * @return this builder
     */
    public B cgroups(Cgroups cgroups) {
      this.cgroups = cgroups;
      return self();
    }

    /**
     * Whether the tree's own network namespace comes back empty, for somebody else to fill (CRIU
     * {@code empty-ns net}).
     *
     * @param emptyNetworkNamespace the new value; false by default
     * @return this builder
     */
    public B emptyNetworkNamespace(boolean emptyNetworkNamespace) {
      this.emptyNetworkNamespace = emptyNetworkNamespace;
      return self();
    }

    /**
     * Which properties of the CPU must match where the image is restored (CRIU {@code cpu-cap}). A
     * dump with this option records the CPU.
     *
     * @param cpuCheck the new value; by default a dump records nothing, and a restore compares
     *     {@link CpuCheck#INSTRUCTIONS} if the dump recorded the CPU
     * @return this builder
     */
    public B cpuCheck(CpuCheck cpuCheck) {
      this.cpuCheck = cpuCheck;
      return self();
    }

    /**
     * How a restore recognizes that a file is still the one that was open (CRIU {@code
     * file-validation}).
     *
     * @param fileValidation the new value; by default CRIU decides
     * @return this builder
     */
    public B fileValidation(FileValidation fileValidation) {
      this.fileValidation = fileValidation;
      return self();
    }

    /**
     * Whether a tree with uprobes in it is accepted (CRIU {@code allow-uprobes}).
     *
     * @param allowUprobes the new value; false by default
     * @return this builder
     */
    public B allowUprobes(boolean allowUprobes) {
      this.allowUprobes = allowUprobes;
      return self();
    }

    /**
     * Whether the tasks end up stopped, until they get a SIGCONT (CRIU {@code leave-stopped}).
     *
     * @param leaveStopped the new value; false by default
     * @return this builder
     */
    public B leaveStopped(boolean leaveStopped) {
      this.leaveStopped = leaveStopped;
      return self();
    }

    /**
     * Whether CRIU works without the rights of root (CRIU {@code unprivileged}). It still needs the
     * capability CAP_CHECKPOINT_RESTORE, and handles no cgroups. Excludes {@link #cgroups}.
     *
     * @param unprivileged the new value; false by default
     * @return this builder
     */
    public B unprivileged(boolean unprivileged) {
      this.unprivileged = unprivileged;
      return self();
    }

    /**
     * How much CRIU logs; 1 errors, 2 warnings, 3 information, 4 debugging (CRIU {@code
     * log-level}).
     *
     * @param logLevel the new value; 3 by default
     * @return this builder
     * @throws IllegalArgumentException unless it is between 1 and 4
     */
    public B logLevel(int logLevel) {
      if (logLevel < 1 || logLevel > 4) {
        throw new IllegalArgumentException(
            "the log level must be 1 (errors) to 4 (debug), not " + logLevel);
      }
      this.logLevel = logLevel;
      return self();
    }

    /**
     * How long CRIU may take before it is killed and the call throws {@link
     * dev.gpuprocess.error.OperationTimedOutException}.
     *
     * @param deadline the new value; 10 minutes by default
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public B deadline(Duration deadline) {
      this.deadline = Durations.positive("deadline", deadline);
      return self();
    }

    /**
     * Sets what ends the call early.
     *
     * @param cancellation the new value; nothing by default
     * @return this builder
     */
    public B cancellation(Cancellation cancellation) {
      this.cancellation = cancellation;
      return self();
    }
  }
}
