package dev.gpuprocess.internal.extras;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Stranger;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.launch.CarriedNativeFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A process of another user names files that root stores in its image, and replaces them. */
@RequiresRoot("carries files of another user")
@Timeout(120)
@Tag("slow")
class HostileExtrasTest {

  private static final int DRIVER_590 = 13_010;
  private static final int MANY = 600;
  private static final Duration SOON = Duration.ofSeconds(20);
  private static final String SLEEPER = "exec sleep 600";

  @TempDir Path directory;
  private Stranger stranger;
  private Process job;
  private Process exchange;

  @BeforeEach
  void prepare() {
    stranger = Stranger.create();
  }

  @AfterEach
  void end() throws InterruptedException {
    for (Process each : new Process[] {job, exchange}) {
      if (each != null) {
        each.destroyForcibly().waitFor();
      }
    }
    stranger.close();
  }

  private int pid() {
    return Math.toIntExact(job.pid());
  }

  /** Starts a process of the user with the name of a job file. */
  private void start(Path jobFile) throws IOException {
    job = stranger.start("export CUDA_CHECKPOINT_JOB_FILE=\"$0\"; " + SLEEPER, jobFile);
    awaitProgram("sleep");
  }

  private void awaitProgram(String name) {
    Workload.await(
        () -> ProcFs.commandLine(job.pid()).stream().findFirst().orElse("").endsWith(name), name);
  }

  private ImageExtras extras() {
    return ImageExtras.of(pid(), DRIVER_590);
  }

  /** Returns the extras that a restore reads from an image. */
  private ImageExtras fromImage(byte[] text) throws IOException {
    Files.write(directory.resolve(ImageExtras.FILE), text);
    return ImageExtras.read(7, directory);
  }

  private StateDirectory state() {
    return new StateDirectory(directory.resolve("state"));
  }

  private byte[] ownJobFile() throws IOException {
    stranger.run("mkdir -p jobs/vault; echo first > jobs/vault/file");
    start(stranger.home().resolve("jobs/vault/file"));
    byte[] text = extras().text();
    job.destroyForcibly();
    ProcessIdentity.of(job.pid()).ifPresent(Workload::end);
    return text;
  }

  @Test
  void fileThatTheJobCannotOpenIsNoJobFile() throws IOException {
    Path open = Files.writeString(stranger.home().resolveSibling("root"), Stranger.SECRET);
    Files.setAttribute(open, "unix:mode", 0600);
    for (Path file : List.of(stranger.secret(), open)) {
      start(file);
      assertReason(ImageException.class, ImageException.Reason.JOB_FILE, this::extras);
      job.destroyForcibly();
    }
    Files.setAttribute(open, "unix:mode", 0644);
    start(open);
    assertReason(
        ImageException.class,
        ImageException.Reason.JOB_FILE,
        this::extras,
        "it cannot write to it");
  }

  @Test
  void fileWhoseNameIsAFifoEndsInTime() throws IOException {
    stranger.run("mkfifo fifo");
    start(stranger.home().resolve("fifo"));
    assertTimeoutPreemptively(
        SOON,
        () -> assertReason(ImageException.class, ImageException.Reason.JOB_FILE, this::extras));
  }

  @Test
  void jobFileIsNotWrittenWhereALinkLeads() throws IOException {
    byte[] text = ownJobFile();
    stranger.run("mv jobs away; ln -s \"$0\" jobs", stranger.vault().getParent());
    ImageExtras restore = fromImage(text);
    assertReason(
        ImageException.class,
        ImageException.Reason.JOB_FILE,
        () -> restore.putCudaJobFilesBack(7, state()));
    assertEquals(List.of(), stranger.intruders());
  }

  @Test
  void jobFileBelongsToTheJobAndGoesWithARestoreThatFailed() throws IOException {
    byte[] text = ownJobFile();
    Path file = stranger.home().resolve("jobs/vault/file");
    stranger.run("echo later > jobs/vault/file");
    ImageExtras restore = fromImage(text);
    restore.putCudaJobFilesBack(7, state());
    assertEquals("first\n", Files.readString(file));
    restore.undo();
    assertEquals("later\n", Files.readString(file));

    Files.delete(file);
    ImageExtras again = fromImage(text);
    again.putCudaJobFilesBack(7, state());
    assertEquals("first\n", Files.readString(file));
    assertEquals(Stranger.ID, Files.getAttribute(file, "unix:uid"));
    again.undo();
    assertFalse(Files.exists(file));
  }

  @Test
  void performanceFileIsNotMadeWhereALinkLeads() throws IOException {
    for (String name : List.of("hsperfdata_x/77", "new/hsperfdata_x/77")) {
      Path path = stranger.home().resolve(name);
      Path above = stranger.home().resolve(Path.of(name).getName(0));
      stranger.run("rm -rf hsperfdata_x new; ln -s \"$0\" \"$1\"", stranger.vault(), above);
      ImageExtras restore =
          fromImage(line("jvm %s %s".formatted(Stranger.ID, Stranger.ID), path, "counters"));
      restore.preRestore();
      assertEquals(List.of(), stranger.intruders());

      stranger.run("rm \"$0\"; test \"$0\" = \"$1\" || mkdir \"$0\"", above, path.getParent());
      restore.preRestore();
      assertEquals("counters", Files.readString(path));
      assertEquals(Stranger.ID, Files.getAttribute(path, "unix:uid"));
      assertEquals(Stranger.ID, Files.getAttribute(path.getParent(), "unix:uid"));
      restore.undo();
      assertFalse(Files.exists(path));
    }
  }

  private static byte[] line(String head, Path path, String content) {
    HexFormat hex = HexFormat.of();
    return "%s %s %s%n"
        .formatted(
            head,
            hex.formatHex(path.toString().getBytes(StandardCharsets.UTF_8)),
            hex.formatHex(content.getBytes(StandardCharsets.UTF_8)))
        .getBytes(StandardCharsets.US_ASCII);
  }

  /** The program of a process is mapped, so its name can be that of a performance file. */
  @Test
  void performanceFileThatIsExchangedNeverHasASecret() throws IOException {
    stranger.run("mkdir hsperfdata_x; cp \"$(command -v sleep)\" hsperfdata_x/77");
    job = stranger.start("exec ./hsperfdata_x/77 600");
    awaitProgram("77");
    exchange =
        stranger.start(
            "cd hsperfdata_x; exec perl -e 'while (1) { rename \"77\", \"88\"; symlink $ARGV[0], \"77\"; unlink \"77\";"
                + " rename \"88\", \"77\"; }' \"$0\"",
            stranger.secret());
    int found = 0;
    for (int i = 0; i < MANY || found == 0; i++) {
      try {
        byte[] content =
            JvmPerformanceFile.of(pid()).map(JvmPerformanceFile::content).orElse(new byte[0]);
        found += content.length > 0 ? 1 : 0;
        assertFalse(
            new String(content, StandardCharsets.ISO_8859_1).startsWith("root's"),
            "it has the secret");
      } catch (IOException refused) {
        assertTrue(exchange.isAlive(), "nothing was exchanged");
      }
    }
  }

  /** In the mount namespace of a process the same path is another file. */
  @Test
  void fileOfThisLibraryThatIsAFifoHereEndsInTime() throws IOException {
    Path place = Files.createDirectory(stranger.home().resolve("gpuprocess-native-tenant"));
    String name = "gpuprocess-job-" + "0".repeat(32);
    stranger.run("mkfifo \"$0\"", stranger.home().resolve(name));
    Files.move(stranger.home().resolve(name), place.resolve(name));
    job =
        new ProcessBuilder(
                "unshare",
                "--mount",
                "sh",
                "-c",
                "mount -t tmpfs none \"$0\" && cp \"$(command -v sleep)\" \"$0/$1\" && exec \"$0/$1\" 600",
                place.toString(),
                name)
            .inheritIO()
            .start();
    awaitProgram(name);
    assertTimeoutPreemptively(
        SOON, () -> assertThrows(IOException.class, () -> CarriedNativeFile.of(pid())));
  }
}
