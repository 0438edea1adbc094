package dev.gpuprocess.options;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.internal.text.Label;
import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * How CRIU restores a process tree. Immutable.
 *
 * <p>A restore with {@link ProcessImage} takes what must match the dump from the image's manifest,
 * in addition to what is set here.
 */
public final class RestoreOptions extends TreeOptions {

  private static final RestoreOptions DEFAULTS = builder().build();

  private final Builder set;

  private RestoreOptions(Builder set) {
    super(set);
    this.set = set;
    List<Namespace> joined = set.join.stream().map(JoinedNamespace::kind).toList();
    refuse(
        Set.copyOf(joined).size() < joined.size(),
        "a tree joins one namespace of each kind at most");
    refuse(
        emptyNetworkNamespace() && joined.contains(Namespace.NET),
        "a tree has one network namespace: set emptyNetworkNamespace or join one");
  }

  /**
   * The options that suit most processes.
   *
   * @return the defaults
   */
  public static RestoreOptions ofDefaults() {
    return DEFAULTS;
  }

  /**
   * Starts from the defaults.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Starts from these options.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  /** {@return the label that the image must have} */
  public Optional<String> expectedLabel() {
    return Optional.ofNullable(set.expectedLabel);
  }

  /** {@return the process that the image must be of} */
  public Optional<ProcessIdentity> expectedProcess() {
    return Optional.ofNullable(set.expectedProcess);
  }

  /** {@return whether the root joins our session instead of leading its own} */
  public boolean shellJob() {
    return set.shellJob;
  }

  /** {@return the root directory of the tree's mount namespace} */
  public Optional<Path> root() {
    return Optional.ofNullable(set.root);
  }

  /** {@return descriptors that replace those the tree had} */
  public List<InheritedDescriptor> inherit() {
    return set.inherit;
  }

  /** {@return existing namespaces that the tree joins} */
  public List<JoinedNamespace> join() {
    return set.join;
  }

  /** {@return whether kernel settings that do not exist here are skipped} */
  public boolean weakSysctls() {
    return set.weakSysctls;
  }

  /** {@return the security label in place of the one the tree had} */
  public Optional<LsmProfile> lsmProfile() {
    return Optional.ofNullable(set.lsmProfile);
  }

  /** {@return the SELinux context in place of those that mounts had} */
  public Optional<String> lsmMountContext() {
    return Optional.ofNullable(set.lsmMountContext);
  }

  /** {@return whether mounts are restored as on older kernels} */
  public boolean mountCompatibility() {
    return set.mountCompatibility;
  }

  /** {@return whether the rights of opened files may have changed} */
  public boolean skipFileModeCheck() {
    return set.skipFileModeCheck;
  }

  /** {@return whether this machine is not compared with that of the dump} */
  public boolean skipMachineCheck() {
    return set.skipMachineCheck;
  }

  /** {@return whether the root becomes a child of this JVM} */
  public boolean asChild() {
    return set.asChild;
  }

  /** Builds {@link RestoreOptions}; each method names its default. */
  public static final class Builder extends TreeOptions.Builder<Builder> {

    private @Nullable String expectedLabel;
    private @Nullable ProcessIdentity expectedProcess;
    private boolean shellJob;
    private @Nullable Path root;
    private List<InheritedDescriptor> inherit = List.of();
    private List<JoinedNamespace> join = List.of();
    private boolean weakSysctls;
    private @Nullable LsmProfile lsmProfile;
    private @Nullable String lsmMountContext;
    private boolean mountCompatibility;
    private boolean skipFileModeCheck;
    private boolean skipMachineCheck;
    private boolean asChild;

    private Builder() {}

    @Override
    Builder self() {
      return this;
    }

    /**
     * The label that the image must have. A key proves that an image was made by somebody who has
     * the key, but not which image it is: without an expectation, anybody who can move directories
     * can have one process restored in place of another, or an older state in place of a newer one.
     * Only for {@link ProcessImage#restore(RestoreOptions)}.
     *
     * @param label as given to {@link DumpOptions.Builder#label}; nothing is expected by default
     * @return this builder
     * @throws IllegalArgumentException when it is blank, longer than 200 characters, or has control
     *     characters in it
     */
    public Builder expectLabel(String label) {
      this.expectedLabel = Label.require(label);
      return this;
    }

    /**
     * The process that the image must be of, with the start time that it had when it was dumped.
     * Only for {@link ProcessImage#restore(RestoreOptions)}.
     *
     * @param process as {@link GpuProcess#identity} returned it before the dump; nothing is
     *     expected by default
     * @return this builder
     */
    public Builder expectProcess(ProcessIdentity process) {
      this.expectedProcess = process;
      return this;
    }

    /**
     * Removes what {@link #expectLabel} and {@link #expectProcess} set.
     *
     * @return this builder
     */
    public Builder expectNothing() {
      this.expectedLabel = null;
      this.expectedProcess = null;
      return this;
    }

    /**
     * Whether the root joins our session instead of leading its own (CRIU {@code shell-job}).
     *
     * @param shellJob the new value; false by default
     * @return this builder
     */
    public Builder shellJob(boolean shellJob) {
      this.shellJob = shellJob;
      return this;
    }

    /**
     * The root directory of the tree's mount namespace (CRIU {@code root}).
     *
     * @param root an existing mount point; by default that of CRIU
     * @return this builder
     */
    public Builder root(Path root) {
      this.root = root;
      return this;
    }

    /**
     * Adds descriptors that replace those the tree had (CRIU {@code inherit-fd}).
     *
     * @param more in addition to what was added before; none by default
     * @return this builder
     */
    public Builder inherit(InheritedDescriptor... more) {
      this.inherit = with(inherit, List.of(more));
      return this;
    }

    /**
     * Adds existing namespaces that the tree joins (CRIU {@code join-ns}), at most one of each
     * kind.
     *
     * @param more in addition to what was added before; none by default
     * @return this builder
     */
    public Builder join(JoinedNamespace... more) {
      this.join = with(join, List.of(more));
      return this;
    }

    /**
     * Whether kernel settings (sysctls) that do not exist here are skipped (CRIU {@code
     * weak-sysctls}).
     *
     * @param weakSysctls the new value; false by default
     * @return this builder
     */
    public Builder weakSysctls(boolean weakSysctls) {
      this.weakSysctls = weakSysctls;
      return this;
    }

    /**
     * The security label in place of the one the tree had (CRIU {@code lsm-profile}).
     *
     * @param lsmProfile the new value; by default the one it had
     * @return this builder
     */
    public Builder lsmProfile(LsmProfile lsmProfile) {
      this.lsmProfile = lsmProfile;
      return this;
    }

    /**
     * The SELinux context in place of those that mounts had (CRIU {@code lsm-mount-context}).
     *
     * @param lsmMountContext the new value; by default those they had
     * @return this builder
     */
    public Builder lsmMountContext(String lsmMountContext) {
      this.lsmMountContext = lsmMountContext;
      return this;
    }

    /**
     * Whether mounts are restored as on kernels before 5.15 (CRIU {@code mntns-compat-mode}).
     *
     * @param mountCompatibility the new value; false by default
     * @return this builder
     */
    public Builder mountCompatibility(boolean mountCompatibility) {
      this.mountCompatibility = mountCompatibility;
      return this;
    }

    /**
     * Whether the rights of opened files may have changed since the dump (CRIU {@code
     * skip-file-rwx-check}).
     *
     * @param skipFileModeCheck the new value; false by default
     * @return this builder
     */
    public Builder skipFileModeCheck(boolean skipFileModeCheck) {
      this.skipFileModeCheck = skipFileModeCheck;
      return this;
    }

    /**
     * Whether the image is restored without a look at what it needs of this machine: its CPU,
     * driver, GPUs, libraries and mounts. CRIU still refuses what it cannot restore, with its own
     * words; a process that gets further may die of what is missing. Only for {@link
     * ProcessImage#restore(RestoreOptions)} and {@link dev.gpuprocess.ProcessImage}.
     *
     * @param skipMachineCheck the new value; false by default
     * @return this builder
     */
    public Builder skipMachineCheck(boolean skipMachineCheck) {
      this.skipMachineCheck = skipMachineCheck;
      return this;
    }

    /**
     * Whether the root becomes a child of this JVM instead of init's (CRIU {@code
     * restore-sibling}). The JDK does not know it: a caller who sets this must reap it when it has
     * ended, which tells how it ended and frees its pid; with the driver over RPC by its {@code
     * RestoredChild}.
     *
     * @param asChild the new value; false by default
     * @return this builder
     */
    public Builder asChild(boolean asChild) {
      this.asChild = asChild;
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     * @throws IllegalStateException when two of them exclude each other; the message names both
     */
    public RestoreOptions build() {
      return new RestoreOptions(copy());
    }
  }
}
