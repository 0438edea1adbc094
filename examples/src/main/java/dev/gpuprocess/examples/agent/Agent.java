package dev.gpuprocess.examples.agent;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.options.RetentionPolicy;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.TlsServerCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The agent of a node: the gRPC services, the HTTP endpoint, and the removal of old images. Jobs
 * that are suspended when it is closed or killed stay suspended; the next agent finds them.
 */
public final class Agent implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(Agent.class);

  /** Requests have names and pids only. */
  private static final int LARGEST_REQUEST = 1 << 16;

  private final Operations operations = new Operations();
  private final ScheduledExecutorService pruning =
      Executors.newSingleThreadScheduledExecutor(work -> daemon(work, "gpuprocess prune"));
  private final ExecutorService calls =
      Executors.newCachedThreadPool(work -> daemon(work, "gpuprocess call"));
  private final TimeSliceService slices;
  private final Server server;
  private final HttpEndpoint http;

  /**
   * What an agent is started with.
   *
   * @param listen the address for gRPC; port 0 for any
   * @param http the address for metrics and health; port 0 for any
   * @param token the file with the token; null to accept all calls
   * @param tls the certificate chain and key of the gRPC server; null for plain text
   * @param images the directory with a directory of images for each job
   * @param retention which images stay
   * @param pruneEvery how often old images are removed
   * @param node the name of this node
   * @param proc {@code /proc}
   */
  public record Options(
      InetSocketAddress listen,
      InetSocketAddress http,
      @Nullable Path token,
      @Nullable Tls tls,
      Path images,
      RetentionPolicy retention,
      Duration pruneEvery,
      String node,
      Path proc) {}

  /**
   * The files of a TLS server.
   *
   * @param certificate the chain, as PEM
   * @param key the private key, as PEM of PKCS #8
   */
  public record Tls(Path certificate, Path key) {}

  /**
   * Mends what the last agent left half way, and starts.
   *
   * @param machine the drivers and settings
   * @param options the addresses and files
   * @throws IOException when an address cannot be used, or a file cannot be read
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link GpuCheckpoints#recover()}
   */
  public Agent(GpuCheckpoints machine, Options options) throws IOException {
    for (Recovered each : machine.recover()) {
      LOG.info("process {} is {}", each.process().pid(), each.outcome());
    }
    AgentMetrics metrics = new AgentMetrics(machine);
    Jobs jobs = new Jobs(machine, options.proc());
    slices = new TimeSliceService(machine, jobs, metrics, options.node());
    ImageVolume images =
        new ImageVolume(machine, jobs, metrics, options.images(), options.retention());
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(options.listen(), credentials(options.tls()))
            .executor(calls)
            .maxInboundMessageSize(LARGEST_REQUEST)
            .addService(new SnapshotAgentService(machine, jobs, operations, metrics))
            .addService(slices)
            .addService(images)
            .addService(new HealthService(() -> isReady(machine)));
    if (options.token() != null) {
      builder.intercept(new Token(options.token()));
    }
    server = builder.build();
    http = new HttpEndpoint(options.http(), metrics, () -> isReady(machine));
    try {
      server.start();
    } catch (IOException e) {
      http.close();
      throw e;
    }
    ScheduledFuture<?> unused =
        pruning.scheduleWithFixedDelay(
            images::prune, 0, options.pruneEvery().toMillis(), TimeUnit.MILLISECONDS);
  }

  private static Thread daemon(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  private static ServerCredentials credentials(@Nullable Tls tls) throws IOException {
    return tls == null
        ? InsecureServerCredentials.create()
        : TlsServerCredentials.create(tls.certificate().toFile(), tls.key().toFile());
  }

  private static boolean isReady(GpuCheckpoints machine) {
    return machine.gpus().gpus().isPresent();
  }

  /** Returns the port for gRPC. */
  public int port() {
    return server.getPort();
  }

  /** Returns the port for metrics and health. */
  public int httpPort() {
    return http.port();
  }

  /** Refuses new calls, cancels the verbs under way, and waits until they are done or undone. */
  @Override
  public void close() {
    server.shutdownNow();
    pruning.shutdown();
    operations.close();
    slices.close();
    calls.shutdown();
    if (!Operations.ended(calls)) {
      LOG.warn("a call did not end within a minute");
    }
    http.close();
  }
}
