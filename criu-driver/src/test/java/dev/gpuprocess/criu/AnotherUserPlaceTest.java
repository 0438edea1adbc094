package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Only {@link AnotherUser} can use its program that grants root's rights. */
@OutsideUse("D7")
class AnotherUserPlaceTest {

  @Test
  void whatAKilledTestLeftIsRemoved_andNobodyIsTheUser() throws IOException {
    Path left;
    try (AnotherUser user = AnotherUser.create()) {
      assertEquals(0, (int) Files.getAttribute(user.directory(), "unix:mode") & 07);
      Path made = user.directory();
      // As of a JVM that had another start time.
      left = made.resolveSibling("gpuprocess-user-" + ProcessHandle.current().pid() + "-1-left");
      Files.createDirectory(left);
      assertTrue(Files.exists(left));
      AnotherUser.create().close();
      assertFalse(Files.exists(left));
      assertTrue(Files.exists(made), "this one is at work");
    }
  }
}
