package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.ProgramRun;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** CRIU with some capabilities, and neither root nor a command: {@link CapableUser}. */
@RequiresRoot("makes another user with capabilities")
@Tag("slow")
class WithCapabilitiesTest {

  private static final String ENOUGH = "+checkpoint_restore,+sys_ptrace";

  /** Runs the user's JVM, whose children can never have CAP_SYS_RESOURCE, as in a container. */
  private static String lastLine(String capabilities) throws IOException, InterruptedException {
    List<String> criu = RealCriu.command();
    try (AnotherUser user = AnotherUser.create()) {
      ProcessBuilder builder = user.jvm(CapableUser.class, List.of());
      List<String> command = new ArrayList<>(builder.command());
      command.addAll(
          1,
          List.of(
              "--bounding-set=-sys_resource",
              "--inh-caps=" + capabilities,
              "--ambient-caps=" + capabilities));
      builder.command(command);
      builder.environment().put(CriuLocator.VARIABLE, readable(criu, user).toString());
      builder.environment().put(CriuLocator.COMMAND_VARIABLE, "none");
      Process jvm = builder.start();
      try (BufferedReader out = jvm.inputReader()) {
        List<String> lines = out.lines().toList();
        assertEquals(0, jvm.waitFor(), lines::toString);
        return lines.get(lines.size() - 1);
      } finally {
        jvm.destroyForcibly();
      }
    }
  }

  /** The CRIU of bin/criu is a script with libraries beside it, in the home of root. */
  private static Path readable(List<String> criu, AnotherUser user) throws IOException {
    Path program = Path.of(criu.get(0)).toRealPath();
    if (!Files.exists(program.resolveSibling("criu.bin"))) {
      return program;
    }
    Path copy = user.directory().resolve("criu-for-all");
    ProgramRun.of("cp", "-r", program.getParent().toString(), copy.toString()).succeed();
    ProgramRun.of("chmod", "-R", "a+rX", copy.toString()).succeed();
    return copy.resolve(program.getFileName());
  }

  @Test
  void dumpAndRestoreNeedNoOption() throws IOException, InterruptedException {
    assertEquals(CapableUser.DONE, lastLine(ENOUGH + ",+setpcap"));
  }

  /** Docker's default set with what its manual says CRIU needs: no CAP_SYS_ADMIN. */
  @Test
  void rootOfAContainer_needsNoOption(@TempDir Path directory)
      throws IOException, InterruptedException {
    List<String> command =
        new ArrayList<>(
            List.of(
                "setpriv",
                "--bounding-set=-all,+checkpoint_restore,+sys_ptrace,+chown,+dac_override,+fowner,"
                    + "+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+sys_chroot,+mknod,"
                    + "+audit_write,+setfcap",
                "--inh-caps=-all"));
    command.addAll(TestJvm.command(List.of(), CapableUser.class, CapableUser.CHECK));
    ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile());
    builder.environment().put(CriuLocator.VARIABLE, RealCriu.command().get(0));
    Process jvm = builder.redirectErrorStream(true).start();
    try (BufferedReader out = jvm.inputReader()) {
      List<String> lines = out.lines().toList();
      assertEquals(0, jvm.waitFor(), lines::toString);
      assertEquals(CapableUser.DONE, lines.get(lines.size() - 1), lines::toString);
    } finally {
      jvm.destroyForcibly();
    }
  }

  @Test
  void restoreThatWouldHang_isRefused() throws IOException, InterruptedException {
    String said = lastLine(ENOUGH);
    assertTrue(said.startsWith("MISSING_CAPABILITY: restore of process "), said);
    assertTrue(said.contains("[24]") && said.contains("cap_setpcap"), said);
  }
}
