package dev.gpuprocess.examples.cli;

import dev.gpuprocess.examples.agent.Agent;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Serves the verbs to orchestrators, until it is ended. */
@Command(
    name = "agent",
    description = {
      "Serve suspend, resume, turns and images of the jobs of this node over gRPC, until SIGTERM.",
      "Metrics and health are served over HTTP. See docs/kubernetes.md."
    })
final class AgentCommand extends CliCommand {

  private static final Path PROC = Path.of("/proc");

  @Option(
      names = "--listen",
      paramLabel = "HOST:PORT",
      defaultValue = "127.0.0.1:9001",
      description = "The address for gRPC; ${DEFAULT-VALUE} by default.")
  private String listen = "";

  @Option(
      names = "--http",
      paramLabel = "HOST:PORT",
      defaultValue = "127.0.0.1:9002",
      description = "The address for metrics and health; ${DEFAULT-VALUE} by default.")
  private String http = "";

  @ArgGroup(multiplicity = "1")
  private @Nullable Access access;

  @Option(
      names = "--tls-certificate",
      paramLabel = "FILE",
      description = "The certificate chain of the gRPC server, as PEM; with --tls-key.")
  private @Nullable Path certificate;

  @Option(names = "--tls-key", paramLabel = "FILE", description = "Its private key, as PEM.")
  private @Nullable Path key;

  @Option(
      names = "--images",
      paramLabel = "DIR",
      required = true,
      description = "The volume; each job has a directory of images in it.")
  private Path images = Path.of("");

  @Option(
      names = "--keep",
      paramLabel = "N",
      defaultValue = "3",
      description = "Keep the last N images of each process; ${DEFAULT-VALUE} by default.")
  private int keep;

  @Option(
      names = "--prune-every",
      paramLabel = "TIME",
      defaultValue = "1h",
      description = "How often older images are removed; ${DEFAULT-VALUE} by default.")
  private Duration pruneEvery = Duration.ZERO;

  @Option(
      names = "--node",
      paramLabel = "NAME",
      description = "The name of this node; by default that of the host.")
  private @Nullable String node;

  /** One of the two must be given. */
  private static final class Access {

    @Option(
        names = "--token-file",
        paramLabel = "FILE",
        description = "Accept calls with the token in this file only; its mode is 0400 or 0600.")
    private @Nullable Path token;

    @Option(
        names = "--no-token",
        description = "Accept all calls: each client of the address controls all processes.")
    private boolean open;
  }

  @Override
  int run(Session session) {
    requireWritable(images);
    CountDownLatch ended = new CountDownLatch(1);
    Cancellation.Registration registration = session.cancellation().onCancel(ended::countDown);
    try (Agent agent = Agent.logged(session.machine(), options())) {
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("port", agent.port());
      value.put("httpPort", agent.httpPort());
      session
          .output()
          .result(
              value,
              "agent: gRPC on port %s, metrics on port %s"
                  .formatted(agent.port(), agent.httpPort()));
      if (access != null && access.open) {
        session.note("--no-token: each client of %s controls all processes".formatted(listen));
      }
      ended.await();
    } catch (InterruptedException e) {
      return ExitCode.DONE.code(); // --timeout, SIGINT or SIGTERM
    } catch (IOException e) {
      throw new CommandException(ExitCode.FIX_AND_RETRY, "AGENT", String.valueOf(e.getMessage()));
    } catch (NoClassDefFoundError e) {
      throw new CommandException(
          ExitCode.MACHINE_UNFIT,
          "AGENT",
          "the agent is not in this jar: start bin/gpuprocess agent, or java -jar gpuprocess-agent.jar agent");
    } finally {
      registration.close();
    }
    return ExitCode.DONE.code();
  }

  /** Now rather than at the first dump of a job. */
  private static void requireWritable(Path images) {
    try {
      Path unused = Files.createDirectories(images);
      if (Files.isWritable(images)) {
        return;
      }
    } catch (IOException e) {
      throw new CommandException(
          ExitCode.FIX_AND_RETRY,
          "DIRECTORY",
          "the images cannot be written to %s: %s".formatted(images, e));
    }
    throw new CommandException(
        ExitCode.FIX_AND_RETRY,
        "DIRECTORY",
        "the images cannot be written to %s by this user".formatted(images));
  }

  private Agent.Options options() {
    if ((certificate == null) != (key == null)) {
      throw new CommandException(
          ExitCode.USAGE, "OPTION", "--tls-certificate and --tls-key are given together");
    }
    return new Agent.Options(
        address(listen),
        address(http),
        access == null ? null : access.token,
        certificate == null || key == null ? null : new Agent.Tls(certificate, key),
        images.toAbsolutePath(),
        CommandException.valid(() -> RetentionPolicy.builder().keepLast(keep).build()),
        pruneEvery,
        node == null ? hostName() : node,
        PROC);
  }

  private static InetSocketAddress address(String text) {
    int colon = text.lastIndexOf(':');
    try {
      return new InetSocketAddress(
          text.substring(0, Math.max(colon, 0)), Integer.parseInt(text.substring(colon + 1)));
    } catch (IllegalArgumentException e) {
      throw new CommandException(ExitCode.USAGE, "OPTION", "'%s' is not HOST:PORT".formatted(text));
    }
  }

  private static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }
}
