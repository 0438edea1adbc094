package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Processes and jobs from host to host, each with its own network, node agent, and what it knows of
 * the processes; GPUs and disk are the same, as simulated ones are files.
 */
@RequiresRoot("makes namespaces")
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
    hosts = TwoHosts.create();
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

  /** By an image on the disk of one host, a copy in a directory of both, and one on the other. */
  private void move(MigrationHost to, String how) throws IOException {
    Path image = directory.resolve("disk-1").resolve("job");
    Path shared = directory.resolve("shared").resolve("job");
    assertEquals("ok", at.tell("dump " + pid + " " + image));
    assertEquals("ok", at.tell("copy " + image + " " + shared));
    assertEquals(
        "ok", to.tell("restore %s %s%s".formatted(shared, directory.resolve("disk-2"), how)));
    at = to;
  }

  @Test
  void jobGoesOnElsewhere() throws IOException {
    start("job");
    assertJobGoesOn();
    move(other, "");
    assertJobGoesOn();
    Figures.add("job migration: by an image that was copied: all right");
  }

  @Test
  void processGoesOnOnTheOtherGpuOfTheOtherHost() throws IOException {
    start("counter");
    assertEquals("101", ask("inc"));
    String gpu = ask("gpu");
    move(other, " swapped");
    assertEquals("102", ask("inc"));
    assertTrue(ask("verify").startsWith("ok "));
    assertFalse(ask("gpu").equals(gpu), "it is on the other GPU");
  }
}
