package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.ImageDirectories;
import dev.gpuprocess.criu.internal.process.JobTerminal;
import dev.gpuprocess.criu.internal.process.LogFile;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.GpuPlugin;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
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

  /** Those options of a request that RPC does not carry, in the work directory. */
  public static final String CONFIG = "criu.conf";

  /** The program that CRIU runs to lock the network with the method {@code iptables}. */
  private static final String IPTABLES = "iptables-restore";

  /** The directories in which the commands of sudo and of other programs like it run programs. */
  private static final List<String> ROOTS_PATH =
      List.of("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin");

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
    criu_opts.Builder opts =
        RpcOptions.of(request, networkLock(request, command))
            .setShellJob(shellJob)
            .setPid(request.process().pid())
            .setLogFile(DUMP_LOG);
    return make(
        criu_req_type.DUMP,
        opts,
        RpcOptions.configuration(request),
        request.images(),
        request.work(),
        request.plugin(),
        new CriuCall(command, context, List.of(), null));
  }

  /**
   * Restores a tree.
   *
   * @param terminal the terminal of the tree; null for none
   * @throws IOException if CRIU could not be started
   */
  public CriuResult restore(
      RestoreRequest request, @Nullable JobTerminal terminal, CallContext context)
      throws IOException {
    try (InheritedDescriptors inherited = InheritedDescriptors.open(request.options().criu())) {
      criu_opts.Builder opts =
          RpcOptions.of(request).setLogFile(RESTORE_LOG).addAllInheritFd(inherited.names());
      return make(
          criu_req_type.RESTORE,
          opts,
          RpcOptions.configuration(request),
          request.images(),
          request.work(),
          request.plugin(),
          new CriuCall(command, context, inherited.descriptors(), terminal));
    }
  }

  private CriuResult make(
      criu_req_type type,
      criu_opts.Builder opts,
      List<String> configuration,
      Path images,
      Path work,
      @Nullable GpuPlugin plugin,
      CriuCall call)
      throws IOException {
    try (ImageDirectories directories = ImageDirectories.open(images, work);
        PluginDirectory loaded =
            plugin == null
                ? PluginDirectory.NONE
                : PluginDirectory.make(work, directories, plugins.apply(plugin))) {
      opts.setImagesDirFd(directories.images()).setWorkDirFd(directories.work());
      if (command.lacksRoot()) {
        opts.setUnprivileged(true); // CRIU refuses everything else without root
      }
      List<String> lines = Stream.concat(configuration.stream(), loaded.line().stream()).toList();
      if (!lines.isEmpty()) {
        Files.write(work.resolve(CONFIG), lines);
        opts.setConfigFile(directories.seenByCriu(CONFIG));
      }
      new LogFile(work.resolve(opts.getLogFile())).create();
      return call.make(criu_req.newBuilder().setType(type).setOpts(opts).build());
    }
  }

  /**
   * Chooses a method of locking the network that works on this machine.
   *
   * @return {@link NetworkLock#AUTOMATIC} if nothing will be locked
   */
  private static NetworkLock networkLock(DumpRequest request, CriuCommand command) {
    CriuOptions criu = request.options().criu();
    NetworkLock wanted = criu.get(CriuSwitch.NETWORK_LOCK);
    if (wanted != NetworkLock.AUTOMATIC
        || !(criu.has(CriuSwitch.TCP_ESTABLISHED) || hasItsOwnNetwork(request.process().pid()))) {
      return wanted;
    }
    boolean installed =
        programDirectories(System.getenv().getOrDefault("PATH", ""), command)
            .anyMatch(directory -> Files.isExecutable(Path.of(directory, IPTABLES)));
    return installed ? NetworkLock.IPTABLES : NetworkLock.NFTABLES;
  }

  /** Returns the directories in which CRIU finds programs, if it is found by this PATH. */
  static Stream<String> programDirectories(String path, CriuCommand command) {
    Stream<String> own = Stream.of(path.split(":")).filter(directory -> !directory.isEmpty());
    return command.direct() ? own : Stream.concat(own, ROOTS_PATH.stream()).distinct();
  }

  private static boolean hasItsOwnNetwork(int pid) {
    try {
      return !Files.readSymbolicLink(ProcFs.file(pid, "ns", "net"))
          .equals(Files.readSymbolicLink(ProcFs.self("ns", "net")));
    } catch (IOException goneOrForbidden) {
      return false; // CRIU will report it
    }
  }
}
