package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.dump.DumpOperation;
import dev.gpuprocess.criu.internal.log.DumpReports;
import dev.gpuprocess.criu.internal.preflight.Preflight;
import dev.gpuprocess.criu.internal.process.ProgramTrust;
import dev.gpuprocess.criu.internal.restore.CpuImage;
import dev.gpuprocess.criu.internal.restore.RestoreOperation;
import dev.gpuprocess.criu.internal.rpc.CheckOperation;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.dumped.DumpedTree;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.CriuVersion;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * CRIU through {@code criu swrk}, which is a child of this JVM and has its rights; or, where this
 * JVM is not root, through a command that runs CRIU as root, such as {@code sudo -n criu}: {@link
 * CriuLocator} says which. Both are the same but for this:
 *
 * <ul>
 *   <li>Through a command, {@link dev.gpuprocess.options.RestoreOptions#inherit()}, {@link
 *       dev.gpuprocess.options.RestoreOptions#asChild()} and {@link #lazyPages} are refused with
 *       {@link dev.gpuprocess.error.UnsupportedOptionException}: sudo hands on no descriptor but
 *       the standard ones, of which the first is the socket, and stays between CRIU and this JVM.
 *   <li>The kernel does not let us end a CRIU that is root's. One that does not end when its socket
 *       is closed is ended by root, by another CRIU that runs a script for us. Where that does not
 *       work either, the exception names the pid; such a CRIU is refused at its next stage.
 *   <li>Images, which are root's then, are in directories of this user, who can read and remove
 *       them. Only with a sudoers umask that hides them a dump is refused before the process may
 *       die.
 * </ul>
 *
 * <p>Cheap to create: CRIU is looked for at the first call and remembered once found. Calls block,
 * and block the carrier of a virtual thread: use platform threads. CRIU's CUDA plugin is always
 * kept out; the CUDA state is this library's business.
 */
public final class RpcCriuDriver implements CriuDriver {

  private final CriuFinder finder;

  /** Looks for CRIU where {@link CriuLocator} says. */
  public RpcCriuDriver() {
    this(new CriuLocator());
  }

  /**
   * Uses one CRIU and no other.
   *
   * @param criu the program
   */
  public RpcCriuDriver(Path criu) {
    this(new CriuLocator(criu));
  }

  /**
   * Uses the first CRIU found that is fit for this kernel.
   *
   * @param locator where to look
   */
  public RpcCriuDriver(CriuLocator locator) {
    this.finder = new CriuFinder(locator);
  }

  /**
   * Uses a command that runs CRIU with more rights than this JVM has, and nothing else.
   *
   * @param command the program and its arguments down to and including CRIU, such as {@code sudo},
   *     {@code -n}, {@code /usr/sbin/criu}; no shell sees them. It has to hand its standard input
   *     on to CRIU and to stay until CRIU has ended
   * @return the driver
   * @throws IllegalArgumentException when it is empty
   */
  public static RpcCriuDriver through(List<String> command) {
    return new RpcCriuDriver(CriuLocator.through(command));
  }

  @Override
  public CriuVersion version() {
    return finder.find("version").version();
  }

  /**
   * Writes down which CPU this machine has, so that another can be asked whether its own will do
   * ({@code criu cpuinfo dump}). A dump with a {@link
   * dev.gpuprocess.options.TreeOptions#cpuCheck()} does this by itself.
   *
   * @param images where to: an existing directory, such as one with images made here
   * @throws dev.gpuprocess.error.ImageDirectoryException when it cannot be written to
   * @throws dev.gpuprocess.error.CriuException when CRIU cannot do it
   */
  public void recordCpu(Path images) {
    new CpuImage(finder.find("record CPU").command(), images).record();
  }

  /**
   * Asks whether the CPU of this machine will do for images ({@code criu cpuinfo check}). Needs
   * nothing of the images but what {@link #recordCpu} wrote.
   *
   * @param images the directory with that file
   * @param check what has to be the same
   * @throws dev.gpuprocess.error.CpuMismatchException when it will not do
   * @throws dev.gpuprocess.error.ImageMissingException when nothing was recorded there
   * @throws dev.gpuprocess.error.CriuException when CRIU cannot tell
   */
  public void checkCpu(Path images, CpuCheck check) {
    new CpuImage(finder.find("check CPU").command(), images).check(check);
  }

  /**
   * Starts the receiving end of a dump whose memory pages are sent here. When this returns, it
   * listens.
   *
   * @param request where to listen, and where the pages go
   * @return the server; close it
   * @throws dev.gpuprocess.error.ImageDirectoryException when a directory cannot be written to
   * @throws dev.gpuprocess.error.CriuException when CRIU cannot listen there
   */
  public PageServer pageServer(PageServerRequest request) {
    return PageServer.start(finder.find("page server"), request);
  }

  /**
   * Writes the memory of a tree that runs on, so that a dump with this as its {@linkplain
   * dev.gpuprocess.options.DumpOptions#parentImages() parent} has only to write what has changed
   * since (CRIU's request SINGLE_PRE_DUMP). Each round may have the one before as its parent. The
   * tree stands still for a moment. Works only where the kernel notes which pages are written;
   * {@link #features()} tells.
   *
   * @param request whose memory, and where to; its options as for the dump to come
   * @return what CRIU measured
   * @throws dev.gpuprocess.error.MissingKernelFeatureException when the kernel does not track
   *     memory; CRIU was not started
   * @throws dev.gpuprocess.error.CriuException when CRIU could not; the tree runs on
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws IllegalArgumentException with options that a tree that runs on cannot have
   */
  public DumpReport preDump(DumpRequest request) {
    RpcLink link = link("pre-dump");
    return DumpOperation.preDump(link, link::preDump, request).run();
  }

  /**
   * Starts a CRIU for several rounds of pre-dumps and the dump after them, which is then not
   * started anew for each (CRIU's request PRE_DUMP). The images are those of {@link #preDump}.
   *
   * @return the chain; close it
   */
  public PreDumpChain preDumps() {
    return PreDumpChain.start(link("pre-dump"));
  }

  /**
   * Starts the helper that a restore with {@link dev.gpuprocess.options.RestoreOptions#lazyPages()}
   * needs, {@code criu lazy-pages}. When this returns, a restore can use it.
   *
   * @param request where the pages are
   * @return the helper; close it when it is no longer needed
   * @throws dev.gpuprocess.error.MissingKernelFeatureException when the kernel cannot do it
   * @throws dev.gpuprocess.error.ImageMissingException when there are no images
   * @throws dev.gpuprocess.error.CriuException when the helper could not start
   */
  public LazyPages lazyPages(LazyPagesRequest request) {
    return LazyPages.start(finder.find("lazy pages"), request);
  }

  /** Looks for CRIU, to know whose rights it will have, and does without if there is none. */
  @Override
  public List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return isDirect() ? Preflight.of(process, options) : Preflight.withoutRights(process, options);
  }

  private boolean isDirect() {
    if (ProgramTrust.weAreRoot()) {
      return true;
    }
    try {
      return finder.find("preflight").command().direct();
    } catch (GpuCheckpointException none) {
      return true; // then its rights are ours
    }
  }

  @Override
  public void check() {
    new CheckOperation(link("check")).run();
  }

  @Override
  public Optional<Set<CriuFeature>> features() {
    return Optional.of(link("features").features());
  }

  @Override
  public DumpReport dump(DumpRequest request, DumpListener listener) {
    return new DumpOperation(link("dump"), request, listener).run();
  }

  @Override
  public RestoreReport restore(RestoreRequest request, RestoreListener listener) {
    return new RestoreOperation(link("restore"), request, listener).run();
  }

  @Override
  public DumpedTree describe(Path images) {
    return DumpReports.describe(images);
  }

  private RpcLink link(String operation) {
    return new RpcLink(finder.find(operation).command());
  }
}
