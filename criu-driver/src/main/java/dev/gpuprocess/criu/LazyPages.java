package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.images.PageRequests;
import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.os.ChildProcess;
import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.os.LinuxCalls;
import dev.gpuprocess.criu.internal.os.Spawn;
import dev.gpuprocess.criu.internal.process.CriuBinary;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.criu.internal.restore.LazyPagesSocket;
import dev.gpuprocess.criu.internal.rpc.FeatureCheck;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageMissingException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.UnsupportedOptionException;
import dev.gpuprocess.internal.os.Libc;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.Tls;
import dev.gpuprocess.spi.LazyMemory;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The helper of a lazy restore, {@code criu lazy-pages}: it sends a restored tree its memory,
 * starting with what the tree asks for, and exits when the tree has all of it. May be shared
 * between threads.
 *
 * <p>Until {@link #await} has returned, the tree depends on it and on the host that the pages come
 * from. The kernel gives a tree whose helper has ended pages of zeroes, so a tree that lacks memory
 * has to be ended before this is closed. It is a separate process in its own session, and survives
 * the death of this JVM.
 */
public final class LazyPages implements LazyMemory {

  private static final String OPERATION = "lazy pages";
  private static final String LOG_FILE = "lazy-pages.log";
  private static final String OUTPUT_FILE = "lazy-pages.out";
  private static final Duration REAP_LIMIT = Duration.ofSeconds(5);
  private static final long PAUSE_NANOS = 1_000_000;

  private final LazyPagesRequest request;
  private final Deadline deadline;
  private final ChildProcess helper;
  private volatile boolean closing;

  private LazyPages(LazyPagesRequest request, Deadline deadline, ChildProcess helper) {
    this.request = request;
    this.deadline = deadline;
    this.helper = helper;
  }

  /** Starts a helper, which is listening when this returns. */
  static LazyPages start(CriuBinary criu, LazyPagesRequest request) {
    Failure failure = Failure.of(OPERATION, 0);
    if (!Files.isRegularFile(request.images().resolve("pstree.img"))) {
      throw new ImageMissingException("there are no images in " + request.images(), failure);
    }
    if (!Files.isDirectory(request.work()) || !Files.isWritable(request.work())) {
      throw new ImageDirectoryException(
          request.work() + " is not a writable directory: create it first", failure);
    }
    if (!criu.command().direct()) {
      throw new UnsupportedOptionException(
          "%s did not begin: it must be a child of this JVM, but here CRIU is started by '%s': run as root, or give the criu program its capabilities"
              .formatted(subject(request), criu.command()),
          failure);
    }
    FeatureCheck.require(
        new FeatureCheck(criu.command()).run(), CriuFeature.LAZY_PAGES, subject(request), failure);
    try {
      for (String leftover : List.of(LazyPagesSocket.NAME, LOG_FILE)) {
        Files.deleteIfExists(request.work().resolve(leftover));
      }
      Files.write(request.work().resolve(OUTPUT_FILE), new byte[0]);
      return start(criu.program(), request);
    } catch (IOException e) {
      throw new CriuUnavailableException(
          subject(request) + " did not begin: " + e.getMessage(), failure, e);
    }
  }

  /** Starts the program; visible for a test that has another. */
  static LazyPages start(Path program, LazyPagesRequest request) throws IOException {
    int[] pipe = {-1, -1};
    int output = -1;
    try {
      pipe = LinuxCalls.pipe();
      Libc.check(
          LinuxCalls.functions().fcntl(pipe[0], LinuxCalls.F_SETFL, Libc.O_NONBLOCK), "fcntl");
      output = Libc.open(request.work().resolve(OUTPUT_FILE), Libc.O_RDWR);
      LazyPages pages =
          new LazyPages(
              request,
              Deadline.after(request.deadline()),
              Spawn.start(program, arguments(request), output, List.of(pipe[1])));
      Libc.close(pipe[1]);
      pipe[1] = -1;
      pages.awaitReady(pipe[0]);
      return pages;
    } finally {
      Libc.close(pipe[0]);
      Libc.close(pipe[1]);
      Libc.close(output);
    }
  }

  private static List<String> arguments(LazyPagesRequest request) {
    List<String> all =
        new ArrayList<>(
            List.of(CriuCommand.NO_DEFAULTS, "-L", CriuCommand.NO_PLUGINS, "lazy-pages"));
    all.addAll(List.of("-D", request.images().toString(), "-W", request.work().toString()));
    all.addAll(List.of("-o", LOG_FILE, "-v3", "--status-fd", Integer.toString(Spawn.SOCKET)));
    PageEndpoint source = request.source();
    if (source != null) {
      all.addAll(List.of("--page-server", "--address", source.host()));
      all.addAll(List.of("--port", Integer.toString(source.port())));
      Tls tls = source.tls();
      if (tls != null) {
        all.add("--tls");
        add(all, "--tls-cacert", tls.authority());
        add(all, "--tls-cacrl", tls.revocations());
        add(all, "--tls-cert", tls.certificate());
        add(all, "--tls-key", tls.key());
        if (!tls.nameChecked()) {
          all.add("--tls-no-cn-verify");
        }
      }
    }
    return all;
  }

  private static void add(List<String> arguments, String name, @Nullable Path file) {
    if (file != null) {
      arguments.addAll(List.of(name, file.toString()));
    }
  }

  /** It writes one byte once it listens; end of file means that it never will. */
  private void awaitReady(int pipe) throws NativeCallException {
    byte[] ready = new byte[1];
    while (true) {
      long count = LinuxCalls.functions().read(pipe, ready, ready.length);
      if (count > 0) {
        return;
      }
      if (count == 0 || deadline.passed()) {
        GivenUpException givenUp = count == 0 ? null : GivenUpException.deadline();
        throw failure(end(), givenUp);
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }

  /** {@return the work directory that a restore must use to use this helper} */
  public Path work() {
    return request.work();
  }

  /**
   * Waits until the tree has all of its memory.
   *
   * @throws dev.gpuprocess.error.OperationTimedOutException if the deadline passed; the helper
   *     keeps running, as the tree needs it
   * @throws dev.gpuprocess.error.OperationCancelledException if another thread closed this
   * @throws dev.gpuprocess.error.CriuException if the helper failed, and the tree with it
   */
  @Override
  public void await() {
    try {
      Optional<ExitStatus> ended = helper.reap();
      while (ended.isEmpty()) {
        if (closing) {
          throw failure(ExitStatus.UNKNOWN, GivenUpException.cancelled());
        }
        if (deadline.passed()) {
          throw stillAtWork();
        }
        LockSupport.parkNanos(PAUSE_NANOS);
        ended = helper.reap();
      }
      if (ended.get().code() != 0) {
        throw failure(ended.get(), null);
      }
    } catch (NativeCallException e) {
      throw broken(e);
    }
  }

  private ExitStatus end() throws NativeCallException {
    closing = true;
    helper.kill();
    Optional<ExitStatus> ended = helper.await(Deadline.after(REAP_LIMIT));
    helper.reapLater();
    return ended.orElse(ExitStatus.UNKNOWN);
  }

  private static String subject(LazyPagesRequest request) {
    return "the lazy-pages helper for " + request.images();
  }

  private GpuCheckpointException failure(ExitStatus status, @Nullable GivenUpException givenUp) {
    String printed;
    try {
      printed = Files.readString(request.work().resolve(OUTPUT_FILE));
    } catch (IOException e) {
      printed = "what it printed cannot be read: " + e.getMessage();
    }
    CriuResult result =
        new CriuResult(null, status, givenUp, printed, deadline.elapsed(), helper.pid());
    return new CriuFailureBuilder(
            OPERATION, subject(request), 0, result, request.work().resolve(LOG_FILE))
        .exception(
            new TreeOutcome(null, "a tree restored with it may lack some of its memory"),
            request.deadline());
  }

  private OperationTimedOutException stillAtWork() {
    return new OperationTimedOutException(
        "%s is still working after %s ms, and a tree restored with it needs it: keep waiting, or close it and end the tree"
            .formatted(subject(request), Durations.millis(request.deadline())),
        Failure.of(OPERATION, helper.pid()));
  }

  private CriuUnavailableException broken(NativeCallException e) {
    return new CriuUnavailableException(
        subject(request) + " cannot be reached: " + e.getMessage(),
        Failure.of(OPERATION, helper.pid()),
        e);
  }

  @Override
  public InputStream requests(InputStream said, OutputStream answers) {
    return new PageRequests(said, answers);
  }

  /** Kills the helper unless it has exited, and wakes a waiting thread. */
  @Override
  public void close() {
    try {
      end();
    } catch (NativeCallException e) {
      throw broken(e);
    }
  }
}
