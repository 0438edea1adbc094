package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.ImageDirectories;
import dev.gpuprocess.criu.internal.process.LogFile;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.util.List;
import java.util.Set;

/**
 * Requests as messages to a {@code criu swrk}.
 *
 * @param command what starts CRIU
 */
public record RpcLink(CriuCommand command) {

  /** CRIU's log of a dump, in the work directory. */
  public static final String DUMP_LOG = "dump.log";

  /** CRIU's log of a restore, in the work directory. */
  public static final String RESTORE_LOG = "restore.log";

  /** Takes a message to CRIU. */
  public interface Exchange {
    CriuResult make(criu_req message) throws IOException;
  }

  /**
   * Makes a dump.
   *
   * @param request what to dump; its directories were looked at
   * @param shellJob whether the root of the tree does not lead its session
   * @param supervision what goes along with it
   * @return how it went; CRIU has ended, unless the outcome says otherwise
   * @throws IOException when CRIU could not be started
   */
  public CriuResult dump(DumpRequest request, boolean shellJob, CallContext supervision)
      throws IOException {
    return dump(request, shellJob, alone(supervision));
  }

  /** Makes a pre-dump; the same as {@link #dump} otherwise. */
  public CriuResult preDump(DumpRequest request, boolean shellJob, CallContext supervision)
      throws IOException {
    return preDump(criu_req_type.SINGLE_PRE_DUMP, request, shellJob, alone(supervision));
  }

  private Exchange alone(CallContext supervision) {
    return message -> new CriuCall(command, supervision, List.of()).make(message);
  }

  public CriuResult dump(DumpRequest request, boolean shellJob, Exchange exchange)
      throws IOException {
    NetworkLock lock = NetworkLocks.choose(request.options(), request.process());
    criu_opts.Builder opts = RpcOptions.of(request.options(), lock).setShellJob(shellJob);
    return make(criu_req_type.DUMP, opts, request, exchange);
  }

  public CriuResult preDump(
      criu_req_type type, DumpRequest request, boolean shellJob, Exchange exchange)
      throws IOException {
    criu_opts.Builder opts = RpcOptions.ofPreDump(request.options()).setShellJob(shellJob);
    return make(type, opts, request, exchange);
  }

  private static CriuResult make(
      criu_req_type type, criu_opts.Builder opts, DumpRequest request, Exchange exchange)
      throws IOException {
    try (ImageDirectories directories = ImageDirectories.open(request.images(), request.work())) {
      opts.setImagesDirFd(directories.images())
          .setWorkDirFd(directories.work())
          .setPid(request.process().pid())
          .setLogFile(DUMP_LOG);
      if (ConfigFile.write(request.options(), request.work())) {
        opts.setConfigFile(directories.seenByCriu(ConfigFile.NAME));
      }
      LogFile.create(request.work().resolve(DUMP_LOG));
      return exchange.make(criu_req.newBuilder().setType(type).setOpts(opts).build());
    }
  }

  public CriuResult restore(RestoreRequest request, CallContext supervision) throws IOException {
    try (ImageDirectories directories = ImageDirectories.open(request.images(), request.work());
        InheritedDescriptors inherited = InheritedDescriptors.open(request.options().inherit())) {
      criu_opts.Builder opts =
          RpcOptions.of(request.options())
              .setImagesDirFd(directories.images())
              .setWorkDirFd(directories.work())
              .setLogFile(RESTORE_LOG)
              .addAllInheritFd(inherited.names());
      if (ConfigFile.write(request.options(), request.work())) {
        opts.setConfigFile(directories.seenByCriu(ConfigFile.NAME));
      }
      LogFile.create(request.work().resolve(RESTORE_LOG));
      return new CriuCall(command, supervision, inherited.descriptors())
          .make(criu_req.newBuilder().setType(criu_req_type.RESTORE).setOpts(opts).build());
    }
  }

  CriuResult check(CallContext supervision) throws IOException {
    return new CriuCall(command, supervision, List.of())
        .make(criu_req.newBuilder().setType(criu_req_type.CHECK).build());
  }

  public Set<CriuFeature> features() {
    return new FeatureCheck(command).run();
  }
}
