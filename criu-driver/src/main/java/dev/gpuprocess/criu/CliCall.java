package dev.gpuprocess.criu;

import dev.gpuprocess.criu.Conversation.Stage;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One request to CRIU by its command line, from its start to its end. */
final class CliCall {

  private static final Logger LOG = LoggerFactory.getLogger(CliCall.class);
  private static final int SLICE_MILLIS = 500;
  private static final int SLICE_WITHOUT_PIDFD_MILLIS = 10;
  private static final Duration HANG_UP_GRACE = Duration.ofSeconds(1);

  private final criu_req_type type;
  private final List<String> command;
  private final @Nullable StageScript script;
  private final Supervision supervision;
  private Optional<ProcessIdentity> criu = Optional.empty();

  /**
   * Creates a call.
   *
   * @param type what it is to CRIU's RPC
   * @param command the whole of it
   * @param script what the command names as its script, null for none
   * @param supervision what goes along with it
   */
  CliCall(
      criu_req_type type,
      List<String> command,
      @Nullable StageScript script,
      Supervision supervision) {
    this.type = type;
    this.command = List.copyOf(command);
    this.script = script;
    this.supervision = supervision;
  }

  /**
   * Makes it.
   *
   * @throws IOException when the command could not be started
   */
  Outcome make() throws IOException {
    LOG.debug("{}", command);
    try (CliProcess process = CliProcess.start(command)) {
      GivenUpException givenUp = null;
      try {
        attend(process);
      } catch (GivenUpException e) {
        givenUp = e;
      } catch (NativeCallException e) {
        givenUp = GivenUpException.broken(e);
      }
      ExitStatus exit = givenUp == null ? awaitExit(process) : end(process);
      return new Outcome(
          givenUp == null ? reply(exit) : null,
          exit,
          givenUp,
          process.output(),
          supervision.deadline().elapsed());
    }
  }

  /** Answers the script until the command ends. */
  private void attend(CliProcess process) throws NativeCallException, GivenUpException {
    supervision.requireWanted(supervision.notifications().canStop());
    Posix.load();
    Poll poll = new Poll(3);
    int slice = process.descriptor() < 0 ? SLICE_WITHOUT_PIDFD_MILLIS : SLICE_MILLIS;
    while (true) {
      boolean ready =
          poll.await(
              supervision.deadline().millis(slice),
              script == null ? -1 : script.descriptor(),
              process.descriptor(),
              supervision.wakeup().descriptor());
      if (ready && script != null && poll.isReady(0)) {
        answer(script);
      } else if (!process.isRunning()) {
        return;
      } else {
        supervision.requireWanted(supervision.notifications().canStop());
        supervision.watch().look();
      }
    }
  }

  private void answer(StageScript from) throws NativeCallException, GivenUpException {
    StageScript.Call call = from.next().orElseThrow(GivenUpException::strayLine);
    criu = ProcessIdentity.of(call.criu());
    boolean canStop = supervision.notifications().canStop();
    boolean agreed =
        supervision.notifications().reached(new Stage(call.stage(), call.root(), -1)).agreed();
    // Not sent yet, so whatever the answer is, it can still be taken back.
    supervision.requireWanted(canStop);
    LOG.debug("criu {}: {} answered {}", call.criu(), call.stage(), agreed);
    from.answer(call, agreed);
  }

  private static ExitStatus awaitExit(CliProcess process) {
    return process.awaitExit(Deadline.after(HANG_UP_GRACE)).orElse(ExitStatus.UNKNOWN);
  }

  private ExitStatus end(CliProcess process) {
    supervision.beforeKill().aboutToKill(process.pid());
    // A CRIU whose script waits for our answer takes this for a refusal and cleans up after itself.
    if (script != null) {
      script.hangUp();
    }
    Optional<ExitStatus> exit = process.awaitExit(Deadline.after(HANG_UP_GRACE));
    return exit.isPresent() ? exit.get() : new CliKill(process, criu).run(this::orderEnd);
  }

  private void orderEnd() {
    if (script != null) {
      try {
        script.orderEnd(supervision.notifications().canStop());
      } catch (NativeCallException e) {
        LOG.warn("CRIU cannot be ended: {}", e.getMessage());
      }
    }
  }

  /** What RPC would answer; only a CRIU that died says nothing. */
  private @Nullable criu_resp reply(ExitStatus exit) {
    return exit.isCrash()
        ? null
        : criu_resp.newBuilder().setType(type).setSuccess(exit.code() == 0).build();
  }
}
