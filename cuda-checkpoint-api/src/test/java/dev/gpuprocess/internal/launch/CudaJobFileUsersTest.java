package dev.gpuprocess.internal.launch;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which processes use a job file. Any process can name one in its environment. */
@RequiresRoot("starts programs as another user")
class CudaJobFileUsersTest {

  private static final Duration PATIENCE = Duration.ofMinutes(3);

  @TempDir Path directory;
  private Path file = Path.of("");
  private final List<Process> programs = new ArrayList<>();

  @BeforeEach
  void createFile() throws IOException {
    file =
        Files.createFile(
            directory.resolve("cuda-job"),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
  }

  @AfterEach
  void endAll() {
    programs.forEach(Process::destroyForcibly);
  }

  /** Starts a program that has the variable, and waits until it runs. */
  private int start(String... before) throws IOException {
    List<String> words = new ArrayList<>(List.of(before));
    words.addAll(List.of("sleep", "600"));
    ProcessBuilder builder = new ProcessBuilder(words).inheritIO();
    builder.environment().put(CudaJobFile.VARIABLE, file.toString());
    Process program = builder.start();
    programs.add(program);
    int pid = Math.toIntExact(program.pid());
    await()
        .atMost(PATIENCE)
        .until(() -> ProcFs.stat(pid).map(ProcStat::name).orElse("").equals("sleep"));
    return pid;
  }

  private List<Integer> users() {
    return CudaJobFile.users(file, FileNode.at(file, LinkOption.NOFOLLOW_LINKS));
  }

  @Test
  void aProcessOfAnotherUserIsNone() throws IOException {
    int stranger = start("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups");
    int user = start();
    assertFalse(users().contains(stranger));
    assertTrue(users().contains(user));
  }

  /** A server that works with the rights of its client, say. */
  @Test
  void aProcessWithTheRightsOfAnotherUserIsOne() throws IOException {
    int user = start("setpriv", "--euid", "65534");
    assertTrue(users().contains(user));
  }

  /** It has changed its user after its start, say, and the file stays in use. */
  @Test
  void theOwnerIsAUserWithoutWaysToTheFile() throws IOException {
    Files.setAttribute(file, "unix:uid", 65534);
    int owner = start("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups");
    assertTrue(users().contains(owner));
  }
}
