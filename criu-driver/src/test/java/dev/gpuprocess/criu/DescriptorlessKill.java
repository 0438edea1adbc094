package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.linux.Wakeup;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.Conversation.Notifications;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.internal.time.Deadline;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/** Kills a CRIU that hangs while no descriptor is free; a JVM of its own. */
final class DescriptorlessKill {

  /** Before how the call ended. */
  static final String ENDED = "ended: ";

  private static final Duration PATIENCE = Duration.ofSeconds(8);

  private DescriptorlessKill() {}

  /**
   * Prints how the call ended, or what was left.
   *
   * @param args the path of a CRIU that hangs
   * @throws Exception when it cannot be tried
   */
  public static void main(String[] args) throws Exception {
    CriuCommand criu = CriuCommand.direct(Path.of(args[0]));
    Hoard.loadClasses(DescriptorlessKill.class.getClassLoader());
    CriuResult before = hang(criu, 100); // initialises the classes of the library
    CriuResult starved = hang(criu, 0);
    if (ProcessHandle.current().children().findAny().isPresent()) {
      System.out.println("a CRIU was left");
      return;
    }
    System.out.println(ENDED + starved.exit() + (before.exit().equals(starved.exit()) ? "" : "!"));
  }

  /** Makes a request to a CRIU that hangs, and takes the descriptors while it does. */
  private static CriuResult hang(CriuCommand criu, int free) throws Exception {
    Deque<Hoard> taken = new ArrayDeque<>();
    try {
      return new CriuCall(
              criu,
              new CallContext(
                  Deadline.after(PATIENCE),
                  Notifications.NONE,
                  () -> take(taken, free),
                  CriuCall.BeforeKill.NONE,
                  Wakeup.NEVER),
              List.of(),
              null)
          .make(criu_req.newBuilder().setType(criu_req_type.DUMP).build());
    } finally {
      taken.forEach(Hoard::close);
    }
  }

  private static void take(Deque<Hoard> taken, int free) throws GivenUpException {
    if (taken.isEmpty()) {
      taken.add(new Hoard(free));
    }
  }
}
