package dev.gpuprocess.internal.linux;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The credentials with which a file is opened that a process has named. */
class CredentialsTest {

  private static final int TENANT = 30001;

  private static Process start(String... options) throws IOException {
    ProcessBuilder builder = new ProcessBuilder("setpriv", "--clear-groups");
    builder.command().addAll(List.of(options));
    builder.command().addAll(List.of("sleep", "1000"));
    Process started = builder.start();
    await()
        .atMost(180, SECONDS)
        .until(() -> ProcFs.status(started.pid()).getOrDefault("Name", "").equals("sleep"));
    return started;
  }

  @Test
  @RequiresRoot("changes users")
  void processOfOneUser_hasTheUsersCredentials() throws IOException {
    Process tenant = start("--reuid", "30001", "--regid", "30001");
    try {
      assertEquals(TENANT, Credentials.of(tenant.pid()).orElseThrow().user());
    } finally {
      tenant.destroyForcibly();
    }
  }

  /** As with {@code su}, which a tenant starts with environment variables of its own. */
  @Test
  @RequiresRoot("changes users")
  void processWithTheRightsOfSeveralUsers_choosesNoFile() throws IOException {
    Process setUserId = start("--ruid", "30001");
    try {
      IOException e = assertThrows(IOException.class, () -> Credentials.of(setUserId.pid()));
      assertTrue(e.getMessage().contains("several users: [30001, 0"), e.getMessage());
    } finally {
      setUserId.destroyForcibly();
    }
  }
}
