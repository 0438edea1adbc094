package dev.gpuprocess.criu;

import dev.gpuprocess.criu.preflight.Preflight;
import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuVersion;
import dev.gpuprocess.spi.DumpRequest;
import java.nio.file.Path;
import java.util.List;

/**
 * CRIU through {@code criu swrk}. Needs root, or the capabilities that CRIU needs.
 *
 * <p>Cheap to create: CRIU is looked for at the first call and remembered once found. Calls block,
 * and block the carrier of a virtual thread: use platform threads. CRIU's CUDA plugin is always
 * kept out; the CUDA state is this library's business.
 */
public final class RpcCriuDriver extends LinkedCriuDriver {

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
    new CpuImage(finder.find("record CPU").program(), images).record();
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
    new CpuImage(finder.find("check CPU").program(), images).check(check);
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

  /** Needs no CRIU. */
  @Override
  public List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return Preflight.of(process, options);
  }

  @Override
  RpcLink link(String operation) {
    return new RpcLink(finder.find(operation).program());
  }
}
