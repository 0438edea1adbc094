package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The real sudo, for a user without a named command: the permitted case, and the refusal. */
@NullUnmarked
class SudoTest {

  private AnotherUser user;
  private Path program;

  @BeforeEach
  void makeUser() throws IOException {
    List<String> criu = RealCriu.command();
    user = AnotherUser.create();
    program = Path.of(user.criuAsRoot(criu));
  }

  @AfterEach
  void removeUser() {
    if (user != null) {
      user.close();
    }
  }

  /** Returns the driver's message for this sudoers file and this path of CRIU. */
  private String said(String defaults, List<Path> allowed, String criu, String... arguments)
      throws IOException, InterruptedException {
    ProcessBuilder builder =
        RealSudo.of(user, defaults, allowed)
            .jvm(UserVersion.class, List.of("gpuprocess.criu=" + criu));
    builder.command().addAll(List.of(arguments));
    builder.environment().remove(CriuLocator.COMMAND_VARIABLE);
    Process jvm = builder.start();
    try (BufferedReader out = jvm.inputReader()) {
      String said = out.lines().collect(Collectors.joining("\n"));
      assertEquals(0, jvm.waitFor(), said);
      return said;
    } finally {
      jvm.destroyForcibly();
    }
  }

  /** A program that this user can start, but that has no rights. */
  private String visible() {
    Path visible = user.directory().resolve("visible");
    String text = "#!/bin/sh\n[ \"$(id -u)\" = 0 ] || exit 1\nexec %s \"$@\"\n".formatted(program);
    return FakeCriu.write(visible, text).toString();
  }

  @Test
  void itIsUsed_thoughNobodyNamedIt() throws IOException, InterruptedException {
    String visible = visible();
    assertTrue(said("!use_pty", List.of(Path.of(visible)), visible).endsWith("it may do its work"));
  }

  @Test
  void withoutARule_theRuleIsTold() throws IOException, InterruptedException {
    String visible = visible();
    String said = said("use_pty", List.of(), visible);
    String rule =
        "ALL=(root) NOPASSWD: %s --no-default-config -L /proc/self/fdinfo swrk 0"
            .formatted(visible);
    assertTrue(said.startsWith("NO_CRIU"), said);
    assertTrue(said.contains("password is required") || said.contains("may not run"), said);
    assertTrue(said.contains(rule), said);
  }

  @Test
  void whatItDemandsOrReplaces_isTold() throws IOException, InterruptedException {
    String visible = visible();
    List<Path> allowed = List.of(Path.of(visible));
    String tty = said("requiretty", allowed, visible);
    assertTrue(tty.contains("Defaults!" + visible + " !requiretty"), tty);
    String logged = said("log_input, iolog_dir=" + user.home(), allowed, visible);
    assertTrue(logged.contains("NOLOG_INPUT"), logged);
  }

  /** An image that cannot be read cannot be verified. */
  @Test
  void aUmaskThatHidesWhatRootWrites_isFoundBeforeTheProcessDies()
      throws IOException, InterruptedException {
    String visible = visible();
    String said = said("umask=0077, umask_override", List.of(Path.of(visible)), visible, "dump");
    assertTrue(said.contains("this user cannot read it"), said);
    assertTrue(said.contains("Defaults!CRIU umask=0022, umask_override"), said);
    assertTrue(said.endsWith("it counts on"), said);
  }
}
