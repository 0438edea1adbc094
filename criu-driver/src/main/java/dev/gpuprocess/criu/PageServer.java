package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.images.BadImageException;
import dev.gpuprocess.criu.internal.images.PageFiles;
import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.os.Wakeup;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.Conversation;
import dev.gpuprocess.criu.internal.process.CriuBinary;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuKill;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.CriuSession;
import dev.gpuprocess.criu.internal.process.ImageDirectories;
import dev.gpuprocess.criu.internal.process.LogFile;
import dev.gpuprocess.criu.internal.process.LogLimit;
import dev.gpuprocess.criu.internal.rpc.RpcOptions;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_page_server_info;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageCorruptException;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.os.PageSize;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.PageReceiver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * CRIU at the receiving end of a dump: it accepts one connection, writes the memory pages that
 * arrive on it into its images directory, and exits (CRIU's requests PAGE_SERVER_CHLD and
 * WAIT_PID). May be shared between threads.
 *
 * <p>The sender names it with {@link dev.gpuprocess.spi.DumpMemory#pageServer()}. All pages have
 * been sent before the sender's {@link dev.gpuprocess.spi.DumpListener#postDump}. A listener that
 * waits there until this end reports that {@link #await} has returned makes sure that the process
 * dies only once its pages are complete and on disk. Anyone who can reach the port can send, unless
 * TLS restricts it.
 *
 * <p>Closing kills it. If this JVM is killed, the server stays until a sender has connected and
 * disconnected.
 */
public final class PageServer implements PageReceiver {

  private static final String OPERATION = "page server";
  private static final String LOG_FILE = "page-server.log";
  private static final int LOG_LEVEL = 3;

  private final PageServerRequest request;
  private final Cancellation closing;
  private final Wakeup wakeup;
  private final CriuSession session;
  private final ProcessIdentity server;
  private final int port;
  private boolean served;
  private boolean ended;

  private PageServer(
      PageServerRequest request,
      Cancellation closing,
      Wakeup wakeup,
      CriuSession session,
      criu_page_server_info started) {
    this.request = request;
    this.closing = closing;
    this.wakeup = wakeup;
    this.session = session;
    this.server = identify(session, started.getPid());
    this.port = started.getPort();
  }

  /** Starts a page server, which is listening when this returns. */
  static PageServer start(CriuBinary criu, PageServerRequest request) {
    requireDirectory(request.images());
    requireDirectory(request.work());
    Cancellation closing = new Cancellation();
    try (ImageDirectories directories = ImageDirectories.open(request.images(), request.work())) {
      Path log = request.work().resolve(LOG_FILE);
      LogFile.create(log);
      Wakeup wakeup = Wakeup.by(Optional.of(closing));
      @Nullable PageServer started = null;
      @Nullable CriuSession session = null;
      try {
        session =
            CriuSession.start(
                criu.command(),
                new CallContext(
                    Deadline.after(request.deadline()),
                    Conversation.Notifications.NONE,
                    new LogLimit(log),
                    CriuCall.BeforeKill.NONE,
                    wakeup));
        CriuResult result = session.ask(message(directories, request));
        criu_resp reply = result.reply();
        if (reply == null || !reply.getSuccess()) {
          throw failure(request, request.endpoint(), result, "nothing was received");
        }
        started = new PageServer(request, closing, wakeup, session, reply.getPs());
        return started;
      } finally {
        if (started == null) {
          wakeup.close();
          if (session != null) {
            session.close();
          }
        }
      }
    } catch (IOException e) {
      throw new CriuUnavailableException(
          subject(request.endpoint()) + " did not begin: " + e.getMessage(),
          Failure.of(OPERATION, 0),
          e);
    }
  }

  private static void requireDirectory(Path directory) {
    if (!Files.isDirectory(directory) || !Files.isWritable(directory)) {
      throw new ImageDirectoryException(
          "a page server needs writable directories, and "
              + directory
              + " is not one: create it first",
          Failure.of(OPERATION, 0));
    }
  }

  private static criu_req message(ImageDirectories directories, PageServerRequest request) {
    criu_opts.Builder opts =
        criu_opts
            .newBuilder()
            .setImagesDirFd(directories.images())
            .setWorkDirFd(directories.work())
            .setLogFile(LOG_FILE)
            .setLogLevel(LOG_LEVEL);
    RpcOptions.add(opts, request.endpoint());
    if (request.parentImages() != null) {
      opts.setParentImg(NativePath.text(request.parentImages()));
    }
    return criu_req
        .newBuilder()
        .setType(criu_req_type.PAGE_SERVER_CHLD)
        .setKeepOpen(true)
        .setOpts(opts)
        .build();
  }

  /** We only ever kill what CRIU itself has started. */
  private static ProcessIdentity identify(CriuSession session, int pid) {
    return ProcessIdentity.of(pid)
        .filter(process -> session.descendants().contains(process.pid()))
        .orElseThrow(
            () ->
                new CriuUnavailableException(
                    "CRIU says its page server is process " + pid + ", which is not its child",
                    Failure.of(OPERATION, pid)));
  }

  /** {@return the process that is listening} */
  public ProcessIdentity process() {
    return server;
  }

  /**
   * {@return where it is listening, with the port that the kernel picked if the request left that
   * open}
   */
  @Override
  public PageEndpoint endpoint() {
    PageEndpoint asked = request.endpoint();
    return new PageEndpoint(asked.host(), port, asked.tls());
  }

  /** {@return the directory that the pages are written to} */
  public Path images() {
    return request.images();
  }

  /**
   * Waits until a sender has connected and disconnected, and makes sure that all pages have arrived
   * and are on disk.
   *
   * @throws dev.gpuprocess.error.OperationTimedOutException if the deadline passed; the server has
   *     been killed then
   * @throws dev.gpuprocess.error.OperationCancelledException if another thread closed this
   * @throws ImageCorruptException if fewer pages have arrived than were announced
   * @throws CriuException if the transfer failed, for example because the sender went away
   * @throws IllegalStateException if it was closed, or has failed, before
   */
  @Override
  public synchronized void await() {
    if (served) {
      return;
    }
    if (ended) {
      throw new IllegalStateException(subject(endpoint()) + " has ended");
    }
    try {
      criu_req wait =
          criu_req.newBuilder().setType(criu_req_type.WAIT_PID).setPid(server.pid()).build();
      CriuResult result = session.ask(wait);
      criu_resp reply = result.reply();
      if (reply == null || !reply.getSuccess()) {
        end();
        throw failure(request, endpoint(), result, kept());
      }
      served = true;
      end();
      ExitStatus exit = ExitStatus.ofWaitStatus(reply.getStatus());
      if (exit.code() != 0) {
        served = false;
        throw failure(request, endpoint(), session.resultOf(exit), kept());
      }
      PageFiles.requireDurable(request.images(), PageSize.BYTES);
    } catch (BadImageException e) {
      served = false;
      throw new ImageCorruptException(
          subject(endpoint())
              + " did not receive all pages: "
              + e.getMessage()
              + "; send them again",
          Failure.of(OPERATION, 0),
          e);
    } catch (IOException e) {
      served = false;
      throw new ImageException(
          subject(endpoint()) + " has pages that may not be on disk: " + e.getMessage(),
          Failure.of(OPERATION, 0),
          e);
    }
  }

  private String kept() {
    return "what has arrived stays in " + request.images();
  }

  private static String subject(PageEndpoint endpoint) {
    return "the page server at " + endpoint;
  }

  private static GpuCheckpointException failure(
      PageServerRequest request, PageEndpoint endpoint, CriuResult result, String state) {
    Path log = request.work().resolve(LOG_FILE);
    return new CriuFailureBuilder(OPERATION, subject(endpoint), 0, result, log)
        .exception(new TreeOutcome(null, state), request.deadline());
  }

  /** Kills the server, unless it has exited by itself. */
  private void end() throws NativeCallException {
    if (ended) {
      return;
    }
    ended = true;
    try (wakeup;
        session) {
      // Explicitly, as its parent may have died before it.
      if (!served) {
        CriuKill.end(session.command(), List.of(server));
      }
    }
  }

  /** Kills the server, whatever it is doing, and wakes a waiting thread. What has arrived stays. */
  @Override
  public void close() {
    closing.cancel();
    synchronized (this) {
      try {
        end();
      } catch (NativeCallException e) {
        throw new CriuUnavailableException(
            subject(endpoint()) + " could not be ended: " + e.getMessage(),
            Failure.of(OPERATION, server.pid()),
            e);
      }
    }
  }
}
