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

  /** A connection without calls is closed after this time. */
  private static final int IDLE_MINUTES = 5;

  private final Operations operations = new Operations();
  private final ScheduledExecutorService pruning =
      Executors.newSingleThreadScheduledExecutor(Threads.daemons("gpuprocess prune"));
  private final CallThreads calls = new CallThreads();
  private final Readiness readiness;
  private final TimeSliceService slices;
  private final Server server;
  private final HttpEndpoint http;

  /**
   * What an agent is started with.
   *
   * @param listen the address for gRPC; port 0 for any
   * @param http the address for metrics and health; port 0 for any
   * @param token the file with the token, which only the user of the agent may read; null to accept
   *     all calls
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
   * @param key the private key, as PEM of PKCS #8; only the user of the agent may read it
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
    AgentMetrics metrics = new AgentMetrics(machine, options.images());
    Jobs jobs = new Jobs(machine, options.proc());
    slices = new TimeSliceService(machine, jobs, metrics, options.node(), calls);
    ImageVolume images =
        new ImageVolume(machine, jobs, metrics, options.images(), options.retention(), calls);
    readiness = new Readiness(machine);
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(options.listen(), credentials(options.tls()))
            // The threads of the connections check tokens and answer health checks, and neither
            // blocks. Only calls with the token get a thread of their own.
            .directExecutor()
            .maxConcurrentCallsPerConnection(CallThreads.PER_CONNECTION)
            .maxConnectionIdle(IDLE_MINUTES, TimeUnit.MINUTES)
            .maxInboundMessageSize(LARGEST_REQUEST)
            .addService(new SnapshotAgentService(machine, jobs, operations, metrics, calls))
            .addService(slices)
            .addService(images)
            .addService(new HealthService(readiness::isReady))
            .intercept(Rpc.peers());
    if (options.token() != null) {
      builder.intercept(new Token(options.token()));
    }
    server = builder.build();
    http = new HttpEndpoint(options.http(), metrics, readiness::isReady);
    try {
      server.start();
    } catch (IOException e) {
      http.close();
      throw e;
    }
    readiness.start();
    ScheduledFuture<?> unused =
        pruning.scheduleWithFixedDelay(
            Threads.repeatable(images::prune),
            0,
            options.pruneEvery().toMillis(),
            TimeUnit.MILLISECONDS);
  }

  /** The same for a process that is only an agent: all of its log has one format. */
  public static Agent logged(GpuCheckpoints machine, Options options) throws IOException {
    LogBridge.install();
    return new Agent(machine, options);
  }

  private static ServerCredentials credentials(@Nullable Tls tls) throws IOException {
    return tls == null
        ? InsecureServerCredentials.create()
        : TlsServerCredentials.create(
            tls.certificate().toFile(), SecretFile.check(tls.key()).toFile());
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
    calls.close();
    readiness.close();
    http.close();
  }
}
