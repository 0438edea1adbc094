package dev.gpuprocess.criu;

import dev.gpuprocess.criu.preflight.Preflight;
import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuVersion;
import dev.gpuprocess.spi.DumpListener;
import java.util.List;

/**
 * CRIU by its command line, for hosts where nothing but a command is allowed, such as {@code sudo
 * -n criu} or a wrapper; {@link RpcCriuDriver} is better where it can be had. Who may run CRIU as
 * root with any arguments is root: this driver lets CRIU run a script of its own.
 *
 * <p>It keeps the same promises, with these differences:
 *
 * <ul>
 *   <li>{@link DumpListener#queryExternalFiles()} is not called: CRIU does not ask.
 *   <li>{@link dev.gpuprocess.options.RestoreOptions#inherit()}, {@link
 *       dev.gpuprocess.options.RestoreOptions#orphanTerminals()} and {@link
 *       dev.gpuprocess.options.RestoreOptions#asChild()} are refused with {@link
 *       dev.gpuprocess.error.UnsupportedOptionException}: no descriptor travels either way, and
 *       CRIU need not be a child of this JVM.
 *   <li>When the command changes the user, and this JVM is not root, the kernel does not let it end
 *       CRIU. From CRIU's first stage on its script sees to that. Before, a CRIU that a deadline or
 *       a cancellation cannot end works on until that stage and is refused there; the exception
 *       says so.
 * </ul>
 *
 * <p>The command needs {@code setsid}, {@code sh}, {@code readlink} and, to change the user, {@code
 * cat} and {@code chown} on this machine, must see this machine's {@code /proc}, and must stay in
 * the foreground until CRIU has ended. Programs can be run from the work directory, or else from
 * that for temporary files. Cheap to create; calls block, and block the carrier of a virtual
 * thread.
 */
public final class CliCriuDriver extends LinkedCriuDriver {

  private final CliFinder finder;

  /**
   * Uses a command.
   *
   * @param command the program and its first arguments, to which CRIU's own are added; no shell
   *     sees them
   * @throws IllegalArgumentException when it is empty
   */
  public CliCriuDriver(List<String> command) {
    this.finder = new CliFinder(command);
  }

  @Override
  public CriuVersion version() {
    return finder.find("version").version();
  }

  /** Needs no CRIU. What rights CRIU will have is not known here. */
  @Override
  public List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return Preflight.withoutRights(process, options);
  }

  @Override
  CriuLink link(String operation) {
    finder.find(operation);
    return finder.link();
  }
}
