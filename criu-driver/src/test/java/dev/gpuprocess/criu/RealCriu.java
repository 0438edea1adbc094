package dev.gpuprocess.criu;

import dev.gpuprocess.error.GpuCheckpointException;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Assumptions;

/** Tells tests whether there is a CRIU that works here. */
public final class RealCriu {

  private static final @Nullable String PROBLEM = problem();

  private RealCriu() {}

  public static void assume() {
    Assumptions.assumeTrue(PROBLEM == null, () -> "real CRIU: " + PROBLEM);
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

  private static @Nullable String problem() {
    try {
      RpcCriuDriver driver = new RpcCriuDriver();
      driver.version();
      driver.check();
      return null;
    } catch (GpuCheckpointException e) {
      return e.getMessage();
    }
  }
}
