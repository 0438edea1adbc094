package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.options.Tls;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Processes and jobs from host to host, each with its own network, node agent, and what it knows of
 * the processes; GPUs and disk are the same, as simulated ones are files.
 */
@RequiresRoot("makes namespaces")
@Timeout(180) // several JVMs or CRIUs after each other
@NullUnmarked
class MigrationTest {

  private static final int MEMBERS = 3;

  @TempDir Path directory;
  private TwoHosts hosts;
  private MigrationHost one;
  private MigrationHost other;
  private String pid;
  private String place;
  private MigrationHost at;

  @BeforeEach
  void startHosts() throws IOException {
    RealCriu.assume();
    hosts = TwoHosts.create(directory);
    one = new MigrationHost(hosts.senderCommand(), machine(), directory.resolve("state-1"));
    other = new MigrationHost(hosts.receiverCommand(), machine(), directory.resolve("state-2"));
  }

  @AfterEach
  void endHosts() throws IOException {
    if (hosts == null) {
      return;
    }
    if (pid != null && at != null) {
      String unused = at.tell("end " + pid);
    }
    one.close();
    other.close();
    hosts.close();
  }

  private Path machine() {
    return directory.resolve("gpus");
  }

  private void start(String what) throws IOException {
    String[] words = one.tell(what).split(" ");
    assertEquals(3, words.length, String.join(" ", words));
    pid = words[0];
    place = words[1] + " " + words[2];
    at = one;
  }

  private String ask(String question) throws IOException {
    return at.tell("ask " + place + " " + question);
  }

  private long[] work() throws IOException {
    String[] words = ask("status").split(" ");
    assertEquals("ok", words[0], String.join(" ", words));
    return new long[] {Long.parseLong(words[1]), Long.parseLong(words[2])};
  }

  private void assertJobGoesOn() throws IOException {
    long[] before = work();
    Workload.await(
        () -> {
          try {
            long[] now = work();
            return now[0] > before[0] && now[1] > before[1] + MEMBERS;
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        },
        "the job to go on");
    for (int i = 0; i < MEMBERS; i++) {
      assertTrue(ask("verify " + i).startsWith("ok "));
    }
  }

  private void migrate(MigrationHost to, String address, String port, String arrive)
      throws IOException {
    at.begin("migrate " + pid + " " + address + " " + port);
    String arrived = to.tell(arrive);
    String left = at.answer();
    assertTrue(left.startsWith("ok "), left + "; " + arrived);
    assertEquals("ok", arrived);
    at = to;
  }

  @Test
  void jobGoesOnElsewhereByBothWays() throws IOException {
    start("job");
    assertJobGoesOn();

    String shared = directory.resolve("shared").toString();
    assertEquals("ok", one.tell("dump " + pid + " " + shared));
    assertEquals("ok", other.tell("restore " + shared));
    at = other;
    assertJobGoesOn();

    String port = one.tell("receive " + directory.resolve("back") + " " + TwoHosts.SENDER_ADDRESS);
    migrate(one, TwoHosts.SENDER_ADDRESS, port, "received");
    assertJobGoesOn();

    Figures.add("job migration: shared storage, page server: all right");
  }

  @Test
  void processGoesOnOnTheOtherGpuOfTheOtherHostOverTls() throws IOException {
    Tls tls =
        Certificates.authority(directory)
            .issue("both", TwoHosts.SENDER_ADDRESS, TwoHosts.RECEIVER_ADDRESS);
    String files = "tls %s %s %s".formatted(tls.authority(), tls.certificate(), tls.key());
    for (MigrationHost each : List.of(one, other)) {
      assertEquals("ok", each.tell(files));
    }
    start("counter");
    assertEquals("101", ask("inc"));
    String gpu = ask("gpu");
    String port =
        other.tell("receive " + directory.resolve("image") + " " + TwoHosts.RECEIVER_ADDRESS);
    migrate(other, TwoHosts.RECEIVER_ADDRESS, port, "received swapped");
    assertEquals("102", ask("inc"));
    assertTrue(ask("verify").startsWith("ok "));
    assertFalse(ask("gpu").equals(gpu), "it is on the other GPU");
  }
}
