package dev.gpuprocess.criu;

import dev.gpuprocess.contract.InstalledCriu;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Assumptions;

/** The CRIU that tests use. */
public final class RealCriu {

  private static final Optional<String> MISSING = InstalledCriu.missing(new RpcCriuDriver());

  private RealCriu() {}

  /** Skips the test that calls it if there is none; fails it if one was named and does not work. */
  public static void assume() {
    Assumptions.assumeTrue(MISSING.isEmpty(), () -> MISSING.orElse(""));
  }

  /** What starts the one that works here. */
  public static List<String> command() {
    assume();
    return List.of(new CriuFinder(new CriuLocator()).find("test").program().toString());
  }

  /** A command that runs it, and stays until it has ended. */
  public static List<String> byCommand() {
    return List.of("/bin/sh", "-c", "\"$0\" \"$@\"; exit $?", command().get(0));
  }
}
