package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.images.OutsideTerminal;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.JobTerminal;
import dev.gpuprocess.criu.internal.process.JobTerminal.Kind;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The terminal that a restored tree gets, if it had one.
 *
 * @param terminal the terminal for CRIU; null if the tree had none
 * @param log the file with the output of a new terminal; null without one
 * @param outside the terminal that the tree had; null if it had none
 */
record RestoredTerminal(
    @Nullable JobTerminal terminal, @Nullable Path log, @Nullable OutsideTerminal outside)
    implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(RestoredTerminal.class);

  private static final RestoredTerminal NONE = new RestoredTerminal(null, null, null);
  private static final String LOG_NAME = "terminal.log";
  private static final String SLAVES = "/dev/pts/";
  private static final int TIOCSCTTY = 0x540E;
  private static final Duration LIMIT = Duration.ofSeconds(5);

  /** Opens the terminal that the options choose, if the images need one. */
  static RestoredTerminal of(RestoreRequest request, CriuCommand command) throws IOException {
    RestoreOptions options = request.options();
    OutsideTerminal outside = OutsideTerminal.in(request.images()).orElse(null);
    boolean leader = outside != null && outside.session() == request.pid();
    boolean ofShell = options.criu().has(CriuSwitch.SHELL_JOB) || outside != null;
    if (ofShell && !leader && options.callersTerminal() && command.direct()) {
      Optional<JobTerminal> caller = JobTerminal.ofCaller();
      if (caller.isPresent()) {
        return new RestoredTerminal(caller.get(), null, outside);
      }
    }
    if (outside == null) {
      return NONE;
    }
    command.requireDirect("restore", request.pid(), "the terminal of the process");
    Path log = options.terminalLog().orElse(request.work().resolve(LOG_NAME));
    return new RestoredTerminal(
        JobTerminal.create(leader, outside.rows(), outside.columns(), log), log, outside);
  }

  /** Adds the option that makes CRIU use the terminal. */
  RestoreRequest with(RestoreRequest request) {
    return terminal == null
        ? request
        : request.with(request.options().toBuilder().criu(c -> c.shellJob(true)).build());
  }

  /**
   * Makes a new terminal the controlling one of a root that leads its session, which CRIU does not:
   * the root makes the call itself.
   */
  void giveTo(ProcessIdentity root) {
    if (terminal == null || terminal.kind() != Kind.APART) {
      return;
    }
    try {
      Optional<OpenFile> slave =
          ProcFs.visibleFiles(root.pid()).stream()
              .filter(file -> file.target().startsWith(SLAVES))
              .findFirst();
      if (slave.isPresent()) {
        long unused =
            RemoteCalls.borrow(
                root,
                LIMIT,
                borrowed -> borrowed.call(SystemCall.IOCTL, slave.get().number(), TIOCSCTTY, 0));
      }
    } catch (IOException | UntraceableException e) {
      LOG.warn("process {} has no controlling terminal: {}", root.pid(), e.getMessage());
    }
  }

  @Override
  public void close() {
    if (terminal != null) {
      terminal.close();
    }
  }
}
