package dev.gpuprocess.criu;

import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Requests as messages to a {@code criu swrk}.
 *
 * @param program CRIU
 */
record RpcLink(Path program) implements CriuLink {

  /** Takes a message to CRIU. */
  interface Exchange {
    Outcome make(criu_req message) throws IOException;
  }

  @Override
  public Outcome dump(DumpRequest request, boolean shellJob, Supervision supervision)
      throws IOException {
    return dump(request, shellJob, alone(supervision));
  }

  /** Makes a pre-dump; the same as {@link #dump} otherwise. */
  Outcome preDump(DumpRequest request, boolean shellJob, Supervision supervision)
      throws IOException {
    return preDump(criu_req_type.SINGLE_PRE_DUMP, request, shellJob, alone(supervision));
  }

  private Exchange alone(Supervision supervision) {
    return message -> new CriuCall(program, supervision, List.of()).make(message);
  }

  Outcome dump(DumpRequest request, boolean shellJob, Exchange exchange) throws IOException {
    NetworkLock lock = NetworkLocks.choose(request.options(), request.process());
    criu_opts.Builder opts = RpcOptions.of(request.options(), lock).setShellJob(shellJob);
    return make(criu_req_type.DUMP, opts, request, exchange);
  }

  Outcome preDump(criu_req_type type, DumpRequest request, boolean shellJob, Exchange exchange)
      throws IOException {
    criu_opts.Builder opts = RpcOptions.ofPreDump(request.options()).setShellJob(shellJob);
    return make(type, opts, request, exchange);
  }

  private static Outcome make(
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
      return exchange.make(criu_req.newBuilder().setType(type).setOpts(opts).build());
    }
  }

  @Override
  public Outcome restore(RestoreRequest request, Supervision supervision) throws IOException {
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
      return new CriuCall(program, supervision, inherited.descriptors())
          .make(criu_req.newBuilder().setType(criu_req_type.RESTORE).setOpts(opts).build());
    }
  }

  @Override
  public Outcome check(Supervision supervision) throws IOException {
    return new CriuCall(program, supervision, List.of())
        .make(criu_req.newBuilder().setType(criu_req_type.CHECK).build());
  }

  @Override
  public Optional<Set<CriuFeature>> features() {
    return Optional.of(new FeatureCheck(program).run());
  }
}
