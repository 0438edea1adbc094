package dev.gpuprocess.options;

import dev.gpuprocess.internal.text.Label;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * How CRIU dumps a process tree. Immutable.
 *
 * <p>What a restore must know about these is kept in the image's manifest, so it is said only once.
 * What CRIU itself can do is in {@link #criu}. A root that is not the leader of its session (CRIU
 * {@code shell-job}) is detected.
 */
public final class DumpOptions extends CriuCallOptions {

  private static final DumpOptions DEFAULTS = builder().build();

  private final Builder set;

  private DumpOptions(Builder set) {
    super(set);
    this.set = set;
    if (leaveRunning() && leaveStopped()) {
      throw new IllegalStateException(
          "the tree is left running or stopped: set leaveRunning or leaveStopped");
    }
  }

  /**
   * The options that suit most processes.
   *
   * @return the defaults
   */
  public static DumpOptions ofDefaults() {
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

  /** {@return the label of the image in its manifest} */
  public Optional<String> label() {
    return Optional.ofNullable(set.label);
  }

  /** {@return whether the tree runs on after the dump} */
  public boolean leaveRunning() {
    return set.leaveRunning;
  }

  /** {@return whether the tree is gone after the dump: it is not left running, nor stopped} */
  public boolean endsTree() {
    return !leaveRunning() && !leaveStopped();
  }

  /**
   * {@return whether the memory that the driver puts GPU memory into goes into a file of its own in
   * the image, apart from CRIU's}
   */
  public boolean memoryFiles() {
    return set.memoryFiles;
  }

  /**
   * {@return whether forked children lose what they inherited of the GPU, so that the tree can be
   * dumped}
   */
  public boolean releaseInheritedGpu() {
    return set.releaseInheritedGpu;
  }

  /**
   * {@return the attributes that the image may lack although a dump is refused for each of them}
   */
  public Set<Attribute> allowedLosses() {
    return set.allowedLosses;
  }

  /** Builds {@link DumpOptions}; each method names its default. */
  public static final class Builder extends CriuCallOptions.Builder<Builder> {

    private @Nullable String label;
    private boolean leaveRunning;
    private boolean memoryFiles = true;
    private boolean releaseInheritedGpu;
    private Set<Attribute> allowedLosses = Set.of();

    private Builder() {}

    @Override
    Builder self() {
      return this;
    }

    /**
     * Whether the tree runs on after the dump (CRIU {@code leave-running}). Excludes {@link
     * #leaveStopped}.
     *
     * @param leaveRunning the new value; false by default
     * @return this builder
     */
    public Builder leaveRunning(boolean leaveRunning) {
      this.leaveRunning = leaveRunning;
      return this;
    }

    /**
     * The label of the image in its manifest, such as the name of the process and the number of the
     * dump. An image that is signed with a key ({@link
     * dev.gpuprocess.GpuCheckpoints.Builder#imageKey}) cannot be relabelled without the key, so a
     * restore that expects the label ({@link RestoreOptions.Builder#expectLabel}) gets this image
     * and no other. Ignored by {@link dev.gpuprocess.spi.CriuDriver#dump}, whose images have no
     * manifest.
     *
     * @param label the new value; none by default
     * @return this builder
     * @throws IllegalArgumentException when it is blank, longer than 200 characters, or has control
     *     characters in it
     */
    public Builder label(String label) {
      this.label = Label.require(label);
      return this;
    }

    /**
     * Sets whether the GPU memory of a process goes into files of its own ({@code
     * gpu/memory-N.bin}), which CRIU does not dump and a restore maps. Since the suspend it is in
     * files in memory ({@link dev.gpuprocess.GpuCheckpoints.Builder#hostMemory}). Into an image on
     * the same tmpfs they go by a link, to a disk past the page cache where that is possible, and
     * those of a snapshot when the process runs again. CRIU sees them under a name on that tmpfs,
     * as private mappings, so that what is restored from an image never writes to it.
     *
     * <p>Where that cannot be done CRIU dumps the memory, which takes several times as long, and
     * the {@linkplain dev.gpuprocess.report.Step#note() note} of the step {@code copy to own
     * memory} tells why: the process has a mount namespace of its own, or CRIU is run through sudo.
     * It does so, too, where the driver mapped memory itself at the checkpoint. An image with such
     * files cannot be restored by CRIU run through sudo, nor by versions of this library that do
     * not know of them, and from its restore to its resume the process needs them, under whatever
     * name or none. Ignored by {@link dev.gpuprocess.spi.CriuDriver#dump}.
     *
     * @param memoryFiles the new value; true by default
     * @return this builder
     */
    public Builder memoryFiles(boolean memoryFiles) {
      this.memoryFiles = memoryFiles;
      return this;
    }

    /**
     * Whether children that were forked when the process used CUDA already, such as PyTorch's usual
     * data loaders, lose what they inherited of the driver's device files, which no driver takes
     * from them and with which CRIU dumps no tree. Each such descriptor of theirs becomes one of
     * {@code /dev/null}, and each such mapping inaccessible memory, so that numbers and addresses
     * stay taken; a thread of the child makes the system calls, while all of its threads are held.
     * CUDA is of no use in such a child, so it loses nothing, and it does not get them back if the
     * dump fails. NVML that it uses by what it inherited answers errors from then on.
     *
     * <p>A child is not touched, and the dump is refused with {@link
     * dev.gpuprocess.error.FixAndRetryException} and reason CUDA_CHILD, when the driver says that
     * it has CUDA state; when it was forked before {@code cuInit}, or within 10 ms of that, or has
     * executed another program since; when it shares memory or descriptors with another process of
     * the tree, as between {@code vfork} and the execution of a program; when it has loaded NVML
     * and no other process has the same descriptor (in a snapshot the process itself is one of
     * those others, as it still is on its GPU then); and when no system call can be made in it: it
     * is stopped, traced by another process or protected by seccomp, a 32-bit program, may not be
     * traced by this JVM, or the machine is not an x86_64. Children that have ended do not matter.
     * The {@linkplain dev.gpuprocess.report.Step#note() note} of the step {@code release} says how
     * many children, descriptors and mappings it was. Ignored by {@link
     * dev.gpuprocess.spi.CriuDriver#dump}.
     *
     * @param releaseInheritedGpu the new value; false by default
     * @return this builder
     */
    public Builder releaseInheritedGpu(boolean releaseInheritedGpu) {
      this.releaseInheritedGpu = releaseInheritedGpu;
      return this;
    }

    /**
     * Allows that the image lacks attributes that CRIU does not restore and that matter, such as
     * the rules of Landlock. Without this a dump of such a process is refused with {@link
     * dev.gpuprocess.error.CriuException} and reason UNSUPPORTED_RESOURCE. The manifest lists what
     * an image lacks ({@link dev.gpuprocess.image.Manifest#lost()}). Attributes of which {@link
     * Attribute#isRefused()} is false are lost without this. Ignored by {@link
     * dev.gpuprocess.spi.CriuDriver#dump}.
     *
     * @param attributes replace the ones allowed before; none by default
     * @return this builder
     */
    public Builder allowLoss(Attribute... attributes) {
      this.allowedLosses = Set.of(attributes);
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     * @throws IllegalStateException when two of them exclude each other; the message names both
     */
    public DumpOptions build() {
      return new DumpOptions(copy());
    }
  }
}
