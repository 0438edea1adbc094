package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Stranger;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * The owner of a job exchanges the directories and the links of its unlinked files while root dumps
 * and restores it.
 */
@NullUnmarked
@RequiresCriu
@RequiresRoot("dumps a process of another user")
@Timeout(300)
class HostileLinksTest {

  private static final int FILES = 150;
  private static final int DUMPS = 3;
  private static final Duration DEADLINE = Duration.ofSeconds(15);
  private static final Duration LATEST = DEADLINE.plusSeconds(45);
  private static final Duration RESTORE_LIMIT = Duration.ofSeconds(60);

  /** Opens files, gives each another name, and removes the first name. */
  private static final String JOB =
      """
      use POSIX (); POSIX::setsid();
      my ($directory, $count) = @ARGV;
      my @open;
      for my $i (1..$count) {
        open $open[$i], '+>', "$directory/first$i" or die; syswrite $open[$i], 'h' x 4096;
        link "$directory/first$i", "$directory/name$i" or die; unlink "$directory/first$i" or die;
      }
      open my $ready, '>', "$directory/ready"; close $ready;
      sleep 1000 while 1;
      """;

  /** Replaces each link of CRIU by another file for a moment, repeatedly. */
  private static final String EXCHANGE =
      """
      use POSIX ();
      my ($directory, $count, $what) = @ARGV;
      chdir $directory or die;
      open my $ready, '>', 'exchanging'; close $ready;
      while (-e 'ready') {
        for my $name (glob 'link_remap.*') {
          next unless rename $name, "away.$name";
          $what eq 'fifo' ? POSIX::mkfifo($name, 0600) : symlink $what, $name;
          rename "away.$name", $name;
        }
      }
      """;

  @TempDir Path directory;
  private RpcCriuDriver criu;
  private Stranger stranger;
  private Path place;
  private Workload job;

  @BeforeEach
  void prepare() throws IOException {
    RealCriu.assume();
    criu = RealCriu.forOtherUsers(Files.createDirectory(directory.resolve("program")));
    stranger = Stranger.create();
    place = stranger.give(Files.createDirectory(stranger.home().resolve("files")));
  }

  @AfterEach
  void end() {
    if (job != null) {
      ProcessIdentity.of(job.pid()).ifPresent(Workload::end);
      job.close();
    }
    if (stranger != null) {
      stranger.close();
    }
  }

  private Workload perl(String program, Object... arguments) {
    String[] command = new String[3 + arguments.length];
    command[0] = "perl";
    command[1] = "-e";
    command[2] = program;
    for (int i = 0; i < arguments.length; i++) {
      command[i + 3] = arguments[i].toString();
    }
    return Workload.of(Stranger.command(command).toArray(String[]::new));
  }

  private void start(int files) {
    job = perl(JOB, place, files);
    Workload.await(() -> Files.exists(place.resolve("ready")), "the files");
  }

  private DumpDirectories site(String name) {
    return DumpDirectories.in(directory.resolve(name), criu);
  }

  private static DumpOptions.Builder options() {
    return DumpOptions.builder().criu(c -> c.linkRemap(true)).deadline(DEADLINE);
  }

  @Test
  void restore_directoryIsALinkNow_createsNothingThere() throws IOException {
    start(1);
    DumpDirectories site = site("site");
    site.dump(job.identity(), options().build());
    stranger.run("mv files away; ln -s \"$0\" files", stranger.vault());
    GpuCheckpointException e =
        assertThrows(
            GpuCheckpointException.class,
            () ->
                site.restore(job.pid(), RestoreOptions.builder().deadline(RESTORE_LIMIT).build()));
    assertEquals(List.of(), stranger.intruders(), e.getMessage());
    assertTrue(e.getMessage().contains("symbolic link of user 65534"), e.getMessage());

    stranger.run("rm files; mv away files");
    site.restore(job.pid(), RestoreOptions.builder().deadline(RESTORE_LIMIT).build());
    assertTrue(ProcessIdentity.of(job.pid()).isPresent());
    assertEquals(Stranger.ID, Files.getAttribute(place.resolve("name1"), "unix:uid"));
  }

  /** A file that the job had open, and that is gone, is created with the permissions of the job. */
  @Test
  void restore_fileIsGone_belongsToTheJob() throws IOException {
    start(1);
    DumpDirectories site = site("site");
    site.dump(job.identity(), options().build());
    stranger.run("rm files/name1");
    site.restore(job.pid(), RestoreOptions.builder().deadline(RESTORE_LIMIT).build());
    assertEquals(Stranger.ID, Files.getAttribute(place.resolve("name1"), "unix:uid"));
    assertEquals("h".repeat(4096), Files.readString(place.resolve("name1")));
  }

  @Test
  void dump_linksAreExchangedForASecret_neverCopiesIt() throws IOException {
    exchangeDuringDumps(stranger.secret());
  }

  @Test
  void dump_linksAreExchangedForFifos_endsInTime() throws IOException {
    exchangeDuringDumps("fifo");
  }

  private void exchangeDuringDumps(Object what) throws IOException {
    start(FILES);
    try (Workload exchanging = perl(EXCHANGE, place, FILES, what)) {
      Workload.await(() -> Files.exists(place.resolve("exchanging")), "the exchange");
      for (int dump = 0; dump < DUMPS; dump++) {
        DumpDirectories site = site("site" + dump);
        long begin = System.nanoTime();
        try {
          site.dump(job.identity(), options().leaveRunning(true).build());
        } catch (GpuCheckpointException refused) {
          assertTrue(job.identity().isAlive(), refused.getMessage());
        }
        Duration taken = Duration.ofNanos(System.nanoTime() - begin);
        assertTrue(taken.compareTo(LATEST) < 0, () -> "it took " + taken);
        for (Path copy : site.images("held-link-")) {
          assertFalse(Files.readString(copy).contains("root's"), "a secret is in " + copy);
        }
        stranger.run("rm -f files/away.* files/link_remap.*");
      }
      assertTrue(exchanging.identity().isAlive(), "nothing was exchanged");
    }
  }
}
