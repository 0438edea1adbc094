package dev.gpuprocess.options;

import dev.gpuprocess.internal.text.Label;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How CRIU dumps a process tree. Immutable.
 *
 * <p>What a restore must know of these is kept in the image's manifest, so it is said once. A root
 * that does not lead its session (CRIU {@code shell-job}) is noticed by itself.
 */
public final class DumpOptions extends TreeOptions {

  private static final DumpOptions DEFAULTS = builder().build();

  private final Builder set;

  private DumpOptions(Builder set) {
    super(set);
    this.set = set;
  }

  /**
   * The options that suit most jobs.
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
    return set.clone();
  }

  /** {@return what the image will be called in its manifest} */
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

  /** {@return whether TCP connections that are being made are dropped} */
  public boolean tcpSkipInFlight() {
    return set.tcpSkipInFlight;
  }

  /** {@return how packets are kept from connected sockets} */
  public NetworkLock networkLock() {
    return set.networkLock;
  }

  /** {@return whether open files without a name get a temporary one} */
  public boolean linkRemap() {
    return set.linkRemap;
  }

  /** {@return the largest unlinked file that is copied into the image, in bytes} */
  public long ghostLimit() {
    return set.ghostLimit;
  }

  /** {@return whether holes in unlinked files are found by asking the file system} */
  public boolean ghostFiemap() {
    return set.ghostFiemap;
  }

  /** {@return whether any path to a device node will do} */
  public boolean evasiveDevices() {
    return set.evasiveDevices;
  }

  /** {@return whether the names of watched files are searched for} */
  public boolean forceIrmap() {
    return set.forceIrmap;
  }

  /** {@return where the names of watched files are searched for besides CRIU's own places} */
  public List<Path> irmapScanPaths() {
    return set.irmapScanPaths;
  }

  /** {@return a cgroup to freeze the tree with} */
  public Optional<Path> freezeCgroup() {
    return Optional.ofNullable(set.freezeCgroup);
  }

  /** {@return how long stopping the tree may take} */
  public Duration freezeTimeout() {
    return set.freezeTimeout;
  }

  /** {@return whether the kernel notes from now on which pages are written} */
  public boolean trackMemory() {
    return set.trackMemory;
  }

  /** {@return the images of which this dump holds only the difference} */
  public Optional<Path> parentImages() {
    return Optional.ofNullable(set.parentImages);
  }

  /** {@return where the memory pages are sent to, instead of into the images directory} */
  public Optional<PageEndpoint> pageServer() {
    return Optional.ofNullable(set.pageServer);
  }

  /** {@return where this host listens for whoever asks for the memory of a lazy dump} */
  public Optional<PageEndpoint> lazyPages() {
    return Optional.ofNullable(set.lazyPages);
  }

  /** {@return how a pre-dump takes the memory} */
  public PreDumpMode preDumpMode() {
    return set.preDumpMode;
  }

  /** Builds {@link DumpOptions}; each method names its default. */
  public static final class Builder extends TreeOptions.Builder<Builder> {

    private @Nullable String label;
    private boolean leaveRunning;
    private boolean tcpSkipInFlight;
    private NetworkLock networkLock = NetworkLock.AUTOMATIC;
    private boolean linkRemap;
    private long ghostLimit = 64L << 20;
    private boolean ghostFiemap;
    private boolean evasiveDevices;
    private boolean forceIrmap;
    private List<Path> irmapScanPaths = List.of();
    private @Nullable Path freezeCgroup;
    private Duration freezeTimeout = Duration.ofSeconds(10);
    private boolean trackMemory;
    private @Nullable Path parentImages;
    private @Nullable PageEndpoint pageServer;
    private @Nullable PageEndpoint lazyPages;
    private PreDumpMode preDumpMode = PreDumpMode.SPLICE;

    private Builder() {}

    @Override
    Builder self() {
      return this;
    }

    /**
     * Whether the tree runs on after the dump (CRIU {@code leave-running}).
     *
     * @param leaveRunning the new value; false by default
     * @return this builder
     * @throws IllegalStateException with {@link #leaveStopped} or {@link #lazyPages}
     */
    public Builder leaveRunning(boolean leaveRunning) {
      refuse(
          leaveRunning && isLeaveStopped(), "the tree either runs or stops: leaveStopped is set");
      refuse(
          leaveRunning && lazyPages != null,
          "a tree whose memory goes elsewhere cannot run on: lazyPages is set");
      this.leaveRunning = leaveRunning;
      return this;
    }

    @Override
    public Builder leaveStopped(boolean leaveStopped) {
      refuse(leaveStopped && leaveRunning, "the tree either runs or stops: leaveRunning is set");
      refuse(
          leaveStopped && lazyPages != null,
          "a tree whose memory goes elsewhere cannot stay: lazyPages is set");
      return super.leaveStopped(leaveStopped);
    }

    /**
     * Whether TCP connections that are being made are dropped (CRIU {@code tcp-skip-in-flight}).
     *
     * @param tcpSkipInFlight the new value; false by default
     * @return this builder
     */
    public Builder tcpSkipInFlight(boolean tcpSkipInFlight) {
      this.tcpSkipInFlight = tcpSkipInFlight;
      return this;
    }

    /**
     * How packets are kept from connected sockets while their process is not there.
     *
     * @param networkLock the new value; {@link NetworkLock#AUTOMATIC} by default
     * @return this builder
     */
    public Builder networkLock(NetworkLock networkLock) {
      this.networkLock = networkLock;
      return this;
    }

    /**
     * Whether files are taken that are open by a name that is gone, while they have another one
     * (CRIU {@code link-remap}), such as the semaphores of spawned Python workers. The image holds
     * their content, up to {@link #ghostLimit} each, and a restore links them to their other name
     * again, or makes them anew where that is gone; those in shared memory get the content that
     * they had at the dump. A tree with a mount namespace of its own can be restored once, and not
     * after a dump that left it running.
     *
     * @param linkRemap the new value; false by default
     * @return this builder
     */
    public Builder linkRemap(boolean linkRemap) {
      this.linkRemap = linkRemap;
      return this;
    }

    /**
     * What the image is called in its manifest, such as the name of the job and the number of the
     * dump. An image that is signed with a key ({@link
     * dev.gpuprocess.GpuCheckpoints.Builder#imageKey}) cannot be given another label without the
     * key, so a restore that expects it ({@link RestoreOptions.Builder#expectLabel}) gets this
     * image and no other. For images with a manifest.
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
     * The largest unlinked file that is copied into the image, in bytes (CRIU {@code ghost-limit}).
     *
     * @param ghostLimit the new value; 64 MiB by default
     * @return this builder
     * @throws IllegalArgumentException unless it is between 0 and 4 GiB
     */
    public Builder ghostLimit(long ghostLimit) {
      if (ghostLimit < 0 || ghostLimit > 0xffff_ffffL) {
        throw new IllegalArgumentException(
            "the ghost limit must be between 0 and 4 GiB, not " + ghostLimit);
      }
      this.ghostLimit = ghostLimit;
      return this;
    }

    /**
     * Whether holes in unlinked files are found by asking the file system for its extents, which is
     * faster for files with many (CRIU {@code ghost-fiemap}).
     *
     * @param ghostFiemap the new value; false by default
     * @return this builder
     */
    public Builder ghostFiemap(boolean ghostFiemap) {
      this.ghostFiemap = ghostFiemap;
      return this;
    }

    /**
     * Whether any path to a device node will do when the one it was opened by is gone (CRIU {@code
     * evasive-devices}).
     *
     * @param evasiveDevices the new value; false by default
     * @return this builder
     */
    public Builder evasiveDevices(boolean evasiveDevices) {
      this.evasiveDevices = evasiveDevices;
      return this;
    }

    /**
     * Whether the names of files watched with inotify or fanotify are searched for, where the
     * kernel does not tell them (CRIU {@code force-irmap}).
     *
     * @param forceIrmap the new value; false by default
     * @return this builder
     */
    public Builder forceIrmap(boolean forceIrmap) {
      this.forceIrmap = forceIrmap;
      return this;
    }

    /**
     * Where else the names of watched files are searched for (CRIU {@code irmap-scan-path}).
     *
     * @param more in addition to what was added before; CRIU knows some places of its own
     * @return this builder
     */
    public Builder irmapScanPaths(Path... more) {
      this.irmapScanPaths = with(irmapScanPaths, List.of(more));
      return this;
    }

    /**
     * A cgroup that holds the tree and is used to freeze it, instead of stopping one task after the
     * other (CRIU {@code freeze-cgroup}).
     *
     * @param freezeCgroup its directory; none by default
     * @return this builder
     */
    public Builder freezeCgroup(Path freezeCgroup) {
      this.freezeCgroup = freezeCgroup;
      return this;
    }

    /**
     * How long stopping the tree may take (CRIU {@code timeout}).
     *
     * @param freezeTimeout the new value, rounded up to seconds; 10 seconds by default; more than
     *     71 minutes count as 71 minutes, which is as far as CRIU can count
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public Builder freezeTimeout(Duration freezeTimeout) {
      this.freezeTimeout = Durations.positive("freeze timeout", freezeTimeout);
      return this;
    }

    /**
     * Whether the kernel notes from now on which pages are written, for a next dump with {@link
     * #parentImages} (CRIU {@code track-mem}).
     *
     * @param trackMemory the new value; false by default
     * @return this builder
     * @throws IllegalStateException when it is turned off with {@link #parentImages}
     */
    public Builder trackMemory(boolean trackMemory) {
      refuse(!trackMemory && parentImages != null, "a dump with parentImages tracks memory");
      this.trackMemory = trackMemory;
      return this;
    }

    /**
     * Earlier images of the same tree, made while its memory was tracked: this dump holds only what
     * was written since (CRIU {@code prev-images-dir}). Turns {@link #trackMemory} on.
     *
     * @param parentImages relative to the images directory, in which a link to it is made; none by
     *     default
     * @return this builder
     * @throws IllegalArgumentException when the path is absolute: the images could not be moved
     */
    public Builder parentImages(Path parentImages) {
      if (parentImages.isAbsolute()) {
        throw new IllegalArgumentException(
            "the parent is named relative to the images directory, not by " + parentImages);
      }
      this.parentImages = parentImages;
      this.trackMemory = true;
      return this;
    }

    /**
     * Sends the memory pages to a page server of CRIU, on another host or on this one, while the
     * other images stay here (CRIU {@code page-server}). The images directory then lacks {@code
     * pages-*.img} and {@code pagemap-*.img}, which the server has: a restore needs both in one
     * directory. For {@link dev.gpuprocess.spi.CriuDriver#dump} alone, as an image with a manifest
     * holds its own memory.
     *
     * @param pageServer where it listens; none by default
     * @return this builder
     * @throws IllegalArgumentException without a port
     * @throws IllegalStateException with {@link #lazyPages}
     */
    public Builder pageServer(PageEndpoint pageServer) {
      refuse(lazyPages != null, "pages are sent or left to be fetched: lazyPages is set");
      if (pageServer.port() == 0) {
        throw new IllegalArgumentException("pages are sent to a port: name that of " + pageServer);
      }
      this.pageServer = pageServer;
      return this;
    }

    /**
     * Leaves the memory pages in the tree, which stands still, until somebody on another host has
     * fetched them; the tree is gone when all were (CRIU {@code lazy-pages}). The dump lasts until
     * then, and has to be within its {@link #deadline}. {@link
     * dev.gpuprocess.spi.DumpListener#pagesReady} tells when they can be fetched. For {@link
     * dev.gpuprocess.spi.CriuDriver#dump} alone.
     *
     * <p>This gives the tree up to whoever connects first: when that connection ends, CRIU takes
     * the transfer for done and kills the tree, also when nothing was fetched. Only TLS, or a
     * network that nobody else is on, keeps a stranger from ending it so; and a receiver that dies
     * half way takes the tree with it.
     *
     * @param lazyPages an address of this host and a port; none by default
     * @return this builder
     * @throws IllegalArgumentException without a port, as nobody would be told which one it became
     * @throws IllegalStateException with {@link #pageServer}, {@link #leaveRunning} or {@link
     *     #leaveStopped}
     */
    public Builder lazyPages(PageEndpoint lazyPages) {
      refuse(pageServer != null, "pages are sent or left to be fetched: pageServer is set");
      refuse(leaveRunning, "a tree whose memory goes elsewhere cannot run on: leaveRunning is set");
      refuse(
          isLeaveStopped(), "a tree whose memory goes elsewhere cannot stay: leaveStopped is set");
      if (lazyPages.port() == 0) {
        throw new IllegalArgumentException("pages are fetched from a port: name that of the dump");
      }
      this.lazyPages = lazyPages;
      return this;
    }

    /**
     * How a pre-dump takes the memory (CRIU {@code pre-dump-mode}). Other dumps do not look at it.
     *
     * @param preDumpMode the new value; {@link PreDumpMode#SPLICE} by default
     * @return this builder
     */
    public Builder preDumpMode(PreDumpMode preDumpMode) {
      this.preDumpMode = preDumpMode;
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     */
    public DumpOptions build() {
      return new DumpOptions(clone());
    }
  }
}
