package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.dump.DumpOperation;
import dev.gpuprocess.criu.internal.images.TreeReader;
import dev.gpuprocess.criu.internal.log.Statistics;
import dev.gpuprocess.criu.internal.preflight.Preflight;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.MountPlace;
import dev.gpuprocess.criu.internal.restore.CpuImage;
import dev.gpuprocess.criu.internal.restore.RestoreOperation;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.criu.internal.rpc.SimpleRequest;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.GpuPlugin;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Drives CRIU through {@code criu swrk}, which is a child of this JVM and has its privileges; or,
 * if this JVM is not root, through a command that runs CRIU as root, such as {@code sudo -n criu}.
 * The two differ in this:
 *
 * <ul>
 *   <li>Through a command, {@link dev.gpuprocess.options.CriuSwitch#INHERIT_FD} and {@link
 *       RestoreRequest#asChild()} are refused with {@link
 *       dev.gpuprocess.error.FixAndRetryException} and reason UNSUPPORTED_OPTION: sudo passes on no
 *       descriptors but the standard ones, the first of which is the socket, and stays between CRIU
 *       and this JVM.
 *   <li>The kernel does not let us kill a CRIU that runs as root. If it does not exit when its
 *       socket is closed, another CRIU runs a script as root that kills it. If that fails too, the
 *       exception names the pid, and such a CRIU is refused at its next stage.
 *   <li>The images then belong to root, but are in directories of this user, who can read and
 *       remove them. If the umask in sudoers makes them unreadable, a dump is refused before the
 *       process may die.
 * </ul>
 *
 * <p>The system property {@value CriuLocator#PROPERTY} or else the environment variable {@value
 * CriuLocator#VARIABLE} names CRIU; a CRIU named this way is used or refused, never replaced by
 * another. Otherwise the first {@code criu} on the {@code PATH} and the ones that {@code bin/criu}
 * provisioned are tried in turn, newest first.
 *
 * <p>CRIU needs privileges. If this JVM is not root and the program found does not have them by
 * itself (file capabilities, or the set-user-ID bit), a command has to run it as root. That is
 * {@code sudo -n}, unless the system property {@value CriuLocator#COMMAND_PROPERTY} or else the
 * environment variable {@value CriuLocator#COMMAND_VARIABLE} names another, down to and including
 * CRIU, such as {@code doas -n /usr/sbin/criu}, with blanks between its arguments; {@code none}
 * means no command. Sudo has to allow it without a password, which takes one line in {@code
 * /etc/sudoers.d}:
 *
 * <pre>alice ALL=(root) NOPASSWD: /usr/sbin/criu --no-default-config -L /proc/self/fdinfo swrk 0
 * </pre>
 *
 * <p>A user that may run CRIU as root is in effect root: CRIU runs programs that its client names.
 * See {@code docs/criu-as-root.md}.
 *
 * <p>Cheap to create: CRIU is searched at the first call and remembered once found. Calls block,
 * and block the carrier of a virtual thread: use platform threads. CRIU's CUDA plugin is never
 * loaded; this library handles the CUDA state itself. Its plugin for AMD GPUs is loaded for {@link
 * dev.gpuprocess.AmdProcess} alone. It is searched in the directory of {@link #withPlugins}, or
 * else of the system property {@value PluginFinder#PROPERTY} or the environment variable {@value
 * PluginFinder#VARIABLE}, or else in {@code /usr/lib/criu} and the other places of CRIU's packages.
 * Only root may be able to change the file, because CRIU runs as root.
 */
public final class RpcCriuDriver implements CriuDriver {

  private final CriuFinder finder;
  private final PluginFinder plugins;

  /** Uses the first CRIU found that works on this kernel. */
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

  private RpcCriuDriver(CriuLocator locator) {
    this(new CriuFinder(locator), PluginFinder.ofEnvironment());
  }

  private RpcCriuDriver(CriuFinder finder, PluginFinder plugins) {
    this.finder = finder;
    this.plugins = plugins;
  }

  /**
   * Returns a driver with the same CRIU and plugins from another directory, of which only the
   * needed plugin is loaded.
   *
   * @param directory the one that has {@code amdgpu_plugin.so}, which must be of the same version
   *     as CRIU
   * @return a driver that looks for plugins there and nowhere else
   */
  public RpcCriuDriver withPlugins(Path directory) {
    return new RpcCriuDriver(finder, PluginFinder.in(directory));
  }

  /**
   * Uses only a command that runs CRIU with more privileges than this JVM has.
   *
   * @param command the program and its arguments down to and including CRIU, such as {@code sudo},
   *     {@code -n}, {@code /usr/sbin/criu}; no shell is involved. It has to pass its standard input
   *     on to CRIU and to stay until CRIU has exited
   * @return the driver
   * @throws IllegalArgumentException if it is empty
   */
  public static RpcCriuDriver through(List<String> command) {
    return new RpcCriuDriver(CriuLocator.through(command));
  }

  @Override
  public String version() {
    return finder.find("version").version().toString();
  }

  /**
   * Records the CPU of this machine, so that another machine can check whether its own is
   * compatible ({@code criu cpuinfo dump}). A dump with a {@link
   * dev.gpuprocess.options.CriuSwitch#CPU_CAP} does this too.
   *
   * @param images an existing directory to write to, such as one with images made here
   * @throws dev.gpuprocess.error.ImageException with reason DIRECTORY if it cannot be written to
   * @throws dev.gpuprocess.error.CriuException if CRIU fails
   */
  public void recordCpu(Path images) {
    new CpuImage(finder.find("record CPU").command(), images).record();
  }

  /**
   * Checks whether the CPU of this machine is compatible with images ({@code criu cpuinfo check}).
   * Needs only what {@link #recordCpu} wrote, not the images themselves.
   *
   * @param images the directory with that file
   * @param check the features that have to match
   * @throws dev.gpuprocess.error.MachineUnfitException with reason CPU_MISMATCH if it is not
   *     compatible
   * @throws dev.gpuprocess.error.ImageException with reason MISSING if nothing was recorded there
   * @throws dev.gpuprocess.error.CriuException if CRIU cannot compare them
   */
  public void checkCpu(Path images, CpuCheck check) {
    new CpuImage(finder.find("check CPU").command(), images).check(check);
  }

  /** Looks for CRIU to learn whose privileges it will have; works without one, too. */
  @Override
  public List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return Preflight.of(process, options, isDirect());
  }

  /** Returns true only if CRIU is a child of this JVM. */
  @Override
  public boolean takesDescriptors() {
    return finder.find("pass descriptors").command().direct();
  }

  @Override
  public Path locate(GpuPlugin plugin) {
    return plugins.find(plugin);
  }

  private boolean isDirect() {
    if (CurrentUser.isRoot()) {
      return true;
    }
    try {
      return finder.find("preflight").command().direct();
    } catch (GpuCheckpointException none) {
      return true; // then its privileges are ours
    }
  }

  @Override
  public void check() {
    SimpleRequest.check(finder.find("check").command());
  }

  @Override
  public DumpReport dump(DumpRequest request, DumpListener listener) {
    return new DumpOperation(
            link("dump", MountPlace.ofDump(request.process().pid())), request, listener)
        .run();
  }

  @Override
  public RestoreReport restore(RestoreRequest request, RestoreListener listener) {
    return new RestoreOperation(
            link("restore", MountPlace.ofRestore(request.images())), request, listener)
        .run();
  }

  @Override
  public DumpedTree describe(Path images) {
    boolean known = Files.exists(images.resolve(Statistics.OF_DUMP));
    return new TreeReader(images).read(Libc.PAGE_BYTES, known ? Statistics.dump(images) : null);
  }

  private RpcLink link(String operation, MountPlace place) {
    CriuCommand command = finder.find(operation).command();
    return new RpcLink(
        place == MountPlace.HOST && command.direct() ? command.withHostMounts() : command,
        plugins::find);
  }
}
