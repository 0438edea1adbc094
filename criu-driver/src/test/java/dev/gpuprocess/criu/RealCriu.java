package dev.gpuprocess.criu;

import dev.gpuprocess.contract.InstalledCriu;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Assumptions;

/** The CRIU that tests use. */
public final class RealCriu {

  private static final Optional<String> MISSING = InstalledCriu.missing(new RpcCriuDriver());

  private RealCriu() {}

  /** Skips a test without CRIU; fails it if a CRIU was named and does not work. */
  public static void assume() {
    Assumptions.assumeTrue(MISSING.isEmpty(), () -> MISSING.orElse(""));
  }

  /** Returns the command of the CRIU that works here. */
  public static List<String> command() {
    assume();
    return List.of(new CriuFinder(new CriuLocator()).find("test").program().toString());
  }

  /**
   * What starts one that can dump processes of other users also where root has no CAP_SYS_RESOURCE.
   *
   * @param directory where a program goes if one is needed
   * @param criu what starts CRIU as root
   */
  static String forOtherUsers(Path directory, List<String> criu) {
    String asRoot = String.join(" ", criu);
    if (Capabilities.of(ProcessHandle.current().pid()).has(Capability.SYS_RESOURCE)) {
      return asRoot;
    }
    Path limits = TestTools.compile(AnotherUser.class, "limits", directory, "-shared", "-fPIC");
    String text = "#!/bin/sh\nLD_PRELOAD=%s exec %s \"$@\"\n".formatted(limits, asRoot);
    return FakeCriu.write(directory.resolve("criu"), text).toString();
  }

  /** A driver with such a CRIU. */
  static RpcCriuDriver forOtherUsers(Path directory) {
    return new RpcCriuDriver(Path.of(forOtherUsers(directory, command())));
  }

  /** A command that runs it, and stays until it has ended. */
  public static List<String> byCommand() {
    return List.of("/bin/sh", "-c", "\"$0\" \"$@\"; exit $?", command().get(0));
  }
}
