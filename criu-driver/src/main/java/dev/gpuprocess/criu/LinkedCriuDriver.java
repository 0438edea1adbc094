package dev.gpuprocess.criu;

import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.dumped.DumpedTree;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.util.Optional;
import java.util.Set;

/** What is the same for every way to CRIU. */
abstract sealed class LinkedCriuDriver implements CriuDriver permits RpcCriuDriver, CliCriuDriver {

  /**
   * The way to CRIU, which is looked for if it was not found yet.
   *
   * @param operation what for, for the message when there is none
   */
  abstract CriuLink link(String operation);

  @Override
  public void check() {
    new CheckOperation(link("check")).run();
  }

  @Override
  public Optional<Set<CriuFeature>> features() {
    return link("features").features();
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
}
