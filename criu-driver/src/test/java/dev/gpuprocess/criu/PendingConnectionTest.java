package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.options.External;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** CRIU stops a tree that has not accepted a connection to one of its unix sockets yet. */
@NullUnmarked
@RequiresCriu
@RequiresRoot("dumps trees")
class PendingConnectionTest {

  /**
   * A server that accepts once there is a file {@code go}. Its child connects, sends something, and
   * keeps or closes the connection.
   */
  private static final String SERVER =
      """
      use IO::Socket::UNIX;
      my ($place, $end) = @ARGV;
      my $parent = $$;
      my $server = IO::Socket::UNIX->new(Local => "$place/socket", Listen => 5) or die;
      if (!fork) {
        my $client = IO::Socket::UNIX->new(Peer => "$place/socket") or die;
        syswrite($client, "request\\n");
        close($client) if $end eq 'close';
        open(my $ready, '>', "$place/connected") or die;
        close($ready);
        select(undef, undef, undef, 0.1) while getppid == $parent;
        exit;
      }
      select(undef, undef, undef, 0.01) until -e "$place/go";
      my $connection = $server->accept;
      open(my $accepted, '>', "$place/accepted") or die;
      sleep 1000 while 1;
      """;

  @TempDir Path directory;
  private Path images;
  private Path work;
  private Workload tree;
  private int attempts;

  @BeforeEach
  void prepare() throws IOException {
    RealCriu.assume();
    images = Files.createDirectory(directory.resolve("images"));
    work = Files.createDirectory(directory.resolve("work"));
  }

  @AfterEach
  void end() {
    if (tree != null) {
      tree.close();
    }
  }

  private void start(String end) {
    tree = Workload.of("perl", "-e", SERVER, directory.toString(), end);
    Workload.await(() -> Files.exists(directory.resolve("connected")), "the connection");
  }

  private void dump(Runnable whileStopped) {
    DumpRequest request =
        new DumpRequest(
            tree.identity(), images, work, DumpDirectories.dump().leaveRunning(true).build());
    new RpcCriuDriver()
        .dump(
            request,
            new DumpListener() {
              @Override
              public void preDump() {
                if (attempts > 1 && Files.exists(directory.resolve("go"))) {
                  Workload.await(() -> Files.exists(directory.resolve("accepted")), "the server");
                }
              }

              @Override
              public List<External> queryExternalFiles() {
                attempts++;
                whileStopped.run();
                return List.of();
              }
            });
  }

  private void letItAccept() {
    try {
      if (attempts == 1) {
        Files.createFile(directory.resolve("go"));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"keep", "close"})
  void dumpIsRepeatedOnceTheTreeHasAccepted(String end) {
    start(end);
    dump(this::letItAccept);
    assertTrue(attempts > 1, "it was stopped with a connection that was not accepted");
    assertTrue(Files.exists(images.resolve("inventory.img")));
    assertTrue(tree.identity().isAlive());
  }

  @Test
  void serverThatNeverAcceptsIsReported() {
    start("keep");
    CriuException e = assertThrows(CriuException.class, () -> dump(() -> {}));
    assertEquals(Fate.RUNNING_AGAIN, e.failure().fate(), e::getMessage);
    assertTrue(
        e.getMessage().contains("a connection to one of its unix sockets was not accepted yet"),
        e::getMessage);
    assertTrue(attempts > 2, () -> attempts + " attempts");
    assertTrue(tree.identity().isAlive());
  }
}
