package dev.gpuprocess.criu.internal.rpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.criu.internal.process.CriuCommand;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class RpcLinkTest {

  /** The PATH of a user often has no directory in which iptables is. */
  @Test
  void programsOfCriuThroughSudoAreInTheDirectoriesOfRoot() {
    CriuCommand direct = CriuCommand.direct(Path.of("/usr/sbin/criu"));
    CriuCommand sudo = new CriuCommand(List.of("/usr/bin/sudo", "-n", "/usr/sbin/criu"), false);
    String path = "/home/user/bin::/usr/bin";
    assertEquals(
        List.of("/home/user/bin", "/usr/bin"), RpcLink.programDirectories(path, direct).toList());
    assertTrue(
        RpcLink.programDirectories(path, sudo)
            .toList()
            .containsAll(List.of("/home/user/bin", "/usr/sbin", "/usr/local/sbin", "/sbin")));
  }
}
