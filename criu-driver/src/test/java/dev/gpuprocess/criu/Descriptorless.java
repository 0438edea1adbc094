package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuProcess;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.linux.NativeCallException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Starts CRIU, and removes its log, with fewer descriptors than that needs; a JVM of its own. */
final class Descriptorless {

  /** Before how many starts failed. */
  static final String REFUSED = "refused ";

  private static final Path STANDARD_INPUT = Path.of("/proc/self/fd/0");

  /** More than a start needs. */
  private static final int ENOUGH = 12;

  private Descriptorless() {}

  /**
   * Prints how many starts failed, or with how many descriptors standard input was lost.
   *
   * @param args the path of CRIU
   * @throws Exception when it cannot be tried
   */
  public static void main(String[] args) throws Exception {
    Path criu = Path.of(args[0]);
    Hoard.loadClasses(Descriptorless.class.getClassLoader());
    CriuProcess.start(CriuCommand.direct(criu), List.of(), null).close();
    Path before = Files.readSymbolicLink(STANDARD_INPUT);
    int refused = 0;
    for (int free = 0; free < ENOUGH; free++) {
      refused += isRefused(criu, free) ? 1 : 0;
      if (ProcessHandle.current().children().findAny().isPresent()) {
        System.out.println("with " + free + " descriptors a CRIU was left");
        return;
      }
      if (!Files.exists(STANDARD_INPUT) || !Files.readSymbolicLink(STANDARD_INPUT).equals(before)) {
        System.out.println("with " + free + " descriptors standard input was lost");
        return;
      }
    }
    System.out.println(logIsRemoved() ? REFUSED + refused : "a log directory stays");
  }

  private static boolean logIsRemoved() throws IOException {
    LogDirectory log = LogDirectory.planned("dump");
    log.make();
    Files.writeString(log.path().resolve(RpcLink.DUMP_LOG), "what CRIU did");
    try (Hoard all = new Hoard(0)) {
      log.delete();
    }
    return !Files.exists(log.path());
  }

  private static boolean isRefused(Path criu, int free) {
    try (Hoard all = new Hoard(free)) {
      CriuProcess.start(CriuCommand.direct(criu), List.of(), null).close();
      return false;
    } catch (NativeCallException e) {
      return true;
    }
  }
}
