package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MissingCapabilityException;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A lazy dump reads the tree's memory through one large pipe. If CRIU does not get one, it carries
 * on silently and fails when the first page is requested, with a half-restored tree at the other
 * end.
 */
public final class PipeSize {

  public static final Path LIMIT = Path.of("/proc/sys/fs/pipe-max-size");
  public static final long NEEDED = 4 << 20;

  private static final Logger LOG = LoggerFactory.getLogger(PipeSize.class);

  private PipeSize() {}

  static void require(CriuCommand command, String subject, Failure failure) {
    if (isEnough(command)) {
      return;
    }
    throw new MissingCapabilityException(
        subject
            + " did not begin: lazy pages need a pipe of "
            + NEEDED
            + " bytes; raise "
            + LIMIT
            + " to that, or run with "
            + Capability.SYS_RESOURCE,
        failure,
        CriuFailure.NOT_STARTED,
        Set.of(Capability.SYS_RESOURCE.toString()),
        null);
  }

  public static boolean isEnough(CriuCommand command) {
    Capabilities ours = Capabilities.of(ProcessHandle.current().pid());
    // A command that makes CRIU root gives it every capability that has not been dropped for good.
    boolean resource =
        command.direct()
            ? ours.handsOn(Capability.SYS_RESOURCE)
            : ours.leaves(Capability.SYS_RESOURCE);
    return resource || isLarge();
  }

  private static boolean isLarge() {
    try {
      // Not readString: the kernel returns such a file in one read, and the first read of
      // readString asks for one byte.
      return Long.parseLong(Files.readAllLines(LIMIT).get(0).strip()) >= NEEDED;
    } catch (IOException e) {
      LOG.debug("the pipe size limit cannot be read", e);
      return true;
    }
  }
}
