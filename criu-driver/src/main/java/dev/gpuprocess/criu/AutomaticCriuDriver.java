package dev.gpuprocess.criu;

import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.dumped.DumpedTree;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.GpuCheckpointException;
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
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * CRIU as it can be had here; what the service loader finds. It is {@link RpcCriuDriver}, unless
 * that cannot work for this user and the system property {@value #PROPERTY} or else the environment
 * variable {@value #VARIABLE} names a command such as {@code sudo -n criu}: then it is {@link
 * CliCriuDriver} with that command. No other command is tried by itself.
 */
public final class AutomaticCriuDriver implements CriuDriver {

  /** The system property that names the command, with blanks between its arguments. */
  public static final String PROPERTY = "gpuprocess.criu.command";

  /** The environment variable that names the command, with blanks between its arguments. */
  public static final String VARIABLE = "GPUPROCESS_CRIU_COMMAND";

  private static final Logger LOG = LoggerFactory.getLogger(AutomaticCriuDriver.class);

  private final CriuDriver rpc;
  private final String command;
  private volatile @Nullable CriuDriver chosen;

  /** Looks at what is here when it is first asked for something. */
  public AutomaticCriuDriver() {
    this(
        new RpcCriuDriver(),
        System.getProperty(PROPERTY, System.getenv().getOrDefault(VARIABLE, "")));
  }

  AutomaticCriuDriver(CriuDriver rpc, String command) {
    this.rpc = rpc;
    this.command = command.strip();
  }

  /** The driver that does the work. */
  CriuDriver chosen() {
    CriuDriver known = chosen;
    if (known == null) {
      known = command.isEmpty() ? rpc : choose();
      chosen = known;
    }
    return known;
  }

  private CriuDriver choose() {
    try {
      rpc.version();
      rpc.check();
      return rpc;
    } catch (GpuCheckpointException e) {
      LOG.debug("no CRIU over RPC, so '{}' is tried", command, e);
      CriuDriver cli = new CliCriuDriver(List.of(command.split("\\s+")));
      try {
        cli.version();
        return cli;
      } catch (GpuCheckpointException alsoNot) {
        alsoNot.addSuppressed(e);
        throw alsoNot;
      }
    }
  }

  @Override
  public CriuVersion version() {
    return chosen().version();
  }

  @Override
  public void check() {
    chosen().check();
  }

  @Override
  public Optional<Set<CriuFeature>> features() {
    return chosen().features();
  }

  @Override
  public List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return chosen().preflight(process, options);
  }

  @Override
  public DumpReport dump(DumpRequest request, DumpListener listener) {
    return chosen().dump(request, listener);
  }

  @Override
  public RestoreReport restore(RestoreRequest request, RestoreListener listener) {
    return chosen().restore(request, listener);
  }

  @Override
  public DumpedTree describe(Path images) {
    return DumpReports.describe(images);
  }
}
