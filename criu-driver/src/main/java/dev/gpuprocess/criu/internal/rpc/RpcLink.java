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
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.GpuPlugin;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Makes requests as RPC messages to a {@code criu swrk}.
 *
 * @param command the command that starts CRIU
 * @param plugins finds the plugins that requests name
 */
public record RpcLink(CriuCommand command, Function<GpuPlugin, Path> plugins) {

  /** CRIU's log of a dump, in the work directory. */
  public static final String DUMP_LOG = "dump.log";

  /** CRIU's log of a restore, in the work directory. */
  public static final String RESTORE_LOG = "restore.log";

  /**
   * Dumps a tree.
   *
   * @param request the dump; its directories have been checked
   * @param shellJob whether the root of the tree is not the leader of its session
   * @param context deadline, notifications and cancellation
   * @return how it went; CRIU has exited, unless the result says otherwise
   * @throws IOException if CRIU could not be started
   */
  public CriuResult dump(DumpRequest request, boolean shellJob, CallContext context)
      throws IOException {
    NetworkLock lock = NetworkLocks.choose(request.options(), request.process());
    criu_opts.Builder opts = privileged(RpcOptions.of(request, lock)).setShellJob(shellJob);
    try (ImageDirectories directories = ImageDirectories.open(request.images(), request.work());
        PluginDirectory loaded = plugins(request.plugin(), request.work(), directories)) {
      opts.setImagesDirFd(directories.images())
          .setWorkDirFd(directories.work())
          .setPid(request.process().pid())
          .setLogFile(DUMP_LOG);
      if (ConfigFile.write(request, loaded)) {
        opts.setConfigFile(directories.seenByCriu(ConfigFile.NAME));
      }
      new LogFile(request.work().resolve(DUMP_LOG)).create();
      return new CriuCall(command, context, List.of())
          .make(criu_req.newBuilder().setType(criu_req_type.DUMP).setOpts(opts).build());
    }
  }

  public CriuResult restore(RestoreRequest request, CallContext context) throws IOException {
    try (ImageDirectories directories = ImageDirectories.open(request.images(), request.work());
        InheritedDescriptors inherited = InheritedDescriptors.open(request.options().criu());
        PluginDirectory loaded = plugins(request.plugin(), request.work(), directories)) {
      criu_opts.Builder opts =
          privileged(RpcOptions.of(request))
              .setImagesDirFd(directories.images())
              .setWorkDirFd(directories.work())
              .setLogFile(RESTORE_LOG)
              .addAllInheritFd(inherited.names());
      if (ConfigFile.write(request, loaded)) {
        opts.setConfigFile(directories.seenByCriu(ConfigFile.NAME));
      }
      new LogFile(request.work().resolve(RESTORE_LOG)).create();
      return new CriuCall(command, context, inherited.descriptors())
          .make(criu_req.newBuilder().setType(criu_req_type.RESTORE).setOpts(opts).build());
    }
  }

  /** A CRIU that is not root refuses everything that is not declared as such. */
  private criu_opts.Builder privileged(criu_opts.Builder opts) {
    return command.lacksRoot() ? opts.setUnprivileged(true) : opts;
  }

  private PluginDirectory plugins(
      @Nullable GpuPlugin plugin, Path work, ImageDirectories directories) throws IOException {
    return plugin == null
        ? PluginDirectory.NONE
        : PluginDirectory.make(work, directories, plugins.apply(plugin));
  }
}
