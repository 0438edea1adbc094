package dev.gpuprocess.internal.launch;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An isolated process replaces its socket by a link to a socket of the host. */
@RequiresRoot("makes a mount namespace")
class HostileSocketTest {

  private static final Duration LIMIT = Duration.ofSeconds(2);

  @TempDir Path directory;

  @Test
  void doesNotConnectToASocketOfTheHost() throws IOException, InterruptedException {
    Path host = directory.resolve("socket");
    RequestChannel channel =
        RequestChannel.of(LaunchOptions.builder("true").isolated(true).build());
    Process process =
        new ProcessBuilder(
                "unshare",
                "--mount",
                "sh",
                "-c",
                "mount -t tmpfs none /dev/shm && ln -s \"$0\" \"$1\" && exec sleep 600",
                host.toString(),
                channel.socket().toString())
            .inheritIO()
            .start();
    try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      server.bind(UnixDomainSocketAddress.of(host));
      server.configureBlocking(false);
      Workload.await(
          () -> ProcFs.commandLine(process.pid()).contains("600"), "the process has its link");
      ProcessIdentity root = ProcessIdentity.of(process.pid()).orElseThrow();
      RequestChannel.Request request = new RequestChannel.Request(true, "0".repeat(16));
      assertThrows(IOException.class, () -> channel.begun(root, request, LIMIT));
      assertNull(server.accept(), "the host's socket was connected to");
    } finally {
      channel.close();
      process.destroyForcibly().waitFor();
    }
  }
}
