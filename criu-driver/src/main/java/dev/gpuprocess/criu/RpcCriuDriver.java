package dev.gpuprocess.criu;

import dev.gpuprocess.DumpOptions;
import dev.gpuprocess.Finding;
import dev.gpuprocess.ProcessIdentity;
import dev.gpuprocess.criu.preflight.Preflight;
import dev.gpuprocess.dumped.DumpedTree;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.CriuVersion;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpReport;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.util.List;

/**
 * CRIU through {@code criu swrk}. Needs root, or the capabilities that CRIU needs.
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

  @Override
  public CriuVersion version() {
    return finder.find("version").version();
  }

  @Override
  public void check() {
    new CheckOperation(link("check")).run();
  }

  /** Needs no CRIU. */
  @Override
  public List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return Preflight.of(process, options);
  }

  @Override
  public DumpReport dump(DumpRequest request, DumpListener listener) {
    return new DumpOperation(link("dump"), request, listener).run();
  }

  @Override
  public RestoreReport restore(RestoreRequest request, RestoreListener listener) {
    return new RestoreOperation(link("restore"), request, listener).run();
  }

  private CriuLink link(String operation) {
    return new RpcLink(finder.find(operation).program());
  }

  @Override
  public DumpedTree describe(Path images) {
    return DumpReports.describe(images);
  }
}
