package dev.gpuprocess.criu.internal.process;

import com.google.protobuf.InvalidProtocolBufferException;
import dev.gpuprocess.criu.proto.Rpc.criu_notify;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Packet;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.options.External;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One request, the notifications that follow, and the reply. */
public final class Conversation {

  private static final Logger LOG = LoggerFactory.getLogger(Conversation.class);
  private static final int SLICE_MILLIS = 500;

  /** More than CRIU needs for its last steps; bounds the wait for a hung CRIU. */
  private static final Duration COMMITTED_PATIENCE = Duration.ofSeconds(20);

  /** Answers CRIU's notifications. */
  public interface Notifications {

    /** Refuses everything; for requests that have no notifications. */
    Notifications NONE = stage -> Answer.NO;

    /** Called at each stage that CRIU reaches. */
    Answer reached(Stage stage);

    /** Called when the consent to a stage was sent to CRIU. */
    default void agreed(Stage stage) {}

    /**
     * Returns false once CRIU has the consent to a step that cannot be undone, after which it soon
     * ends: from then on neither a cancellation nor the deadline of the request applies.
     */
    default boolean canStop() {
      return true;
    }
  }

  /**
   * A stage that CRIU has reached.
   *
   * @param script CRIU's name for the stage
   * @param pid the root of the tree, or 0 if CRIU does not send it
   * @param criu the pid of CRIU
   */
  public record Stage(String script, int pid, int criu) {}

  /**
   * The answer to a notification.
   *
   * @param agreed false to refuse
   * @param external further resources that are not part of the tree
   */
  public record Answer(boolean agreed, List<External> external) {
    public static final Answer YES = new Answer(true, List.of());
    public static final Answer NO = new Answer(false, List.of());
  }

  /**
   * How the conversation ended.
   *
   * @param message CRIU's reply, or null if CRIU exited without one or has to be killed
   * @param givenUp the reason to kill CRIU, which still runs; else null
   */
  record Reply(@Nullable criu_resp message, @Nullable GivenUpException givenUp) {}

  /** Checks on CRIU between messages. */
  public interface Watch {

    /** Checks nothing. */
    Watch NONE = () -> {};

    /**
     * Called periodically while CRIU works.
     *
     * @throws GivenUpException if CRIU has to be killed
     */
    void look() throws GivenUpException;
  }

  private final CriuProcess criu;
  private final CallContext context;
  private final Notifications notifications;
  private Deadline deadline;
  private boolean committed;

  Conversation(CriuProcess criu, CallContext context) {
    this.criu = criu;
    this.context = context;
    this.notifications = context.notifications();
    this.deadline = context.deadline();
  }

  /** Sends the request and answers notifications until the reply comes. */
  Reply ask(criu_req request) {
    try {
      return new Reply(converse(request).orElse(null), null);
    } catch (GivenUpException e) {
      return new Reply(null, e);
    } catch (NativeCallException | ProcessUnreadableException e) {
      return new Reply(null, GivenUpException.broken(e));
    }
  }

  /** Returns empty if CRIU exited without a reply. */
  private Optional<criu_resp> converse(criu_req request)
      throws NativeCallException, GivenUpException {
    LOG.debug("criu {}: {}", criu.pid(), request.getType());
    requireWanted(notifications.canStop());
    if (!criu.send(request.toByteArray())) {
      return Optional.empty();
    }
    while (true) {
      Optional<Packet> packet = next();
      if (packet.isEmpty()) {
        return Optional.empty();
      }
      try {
        criu_resp message = parse(packet.get().bytes());
        if (message.getType() != criu_req_type.NOTIFY) {
          return Optional.of(message);
        }
        if (!answer(message.getNotify())) {
          return Optional.empty();
        }
      } finally {
        Libc.close(packet.get().descriptor());
      }
    }
  }

  /** Returns false when CRIU is gone. */
  private boolean answer(criu_notify notify) throws NativeCallException, GivenUpException {
    boolean canStop = notifications.canStop();
    Stage stage = new Stage(notify.getScript(), notify.getPid(), criu.pid());
    Answer answer = notifications.reached(stage);
    // The answer has not been sent yet, so it can still be withdrawn.
    requireWanted(canStop);
    LOG.debug("criu {}: {} answered {}", criu.pid(), notify.getScript(), answer);
    criu_req.Builder message =
        criu_req.newBuilder().setType(criu_req_type.NOTIFY).setNotifySuccess(answer.agreed());
    if (!answer.external().isEmpty()) {
      // The field is required, but its value is not used.
      criu_opts.Builder options = criu_opts.newBuilder().setImagesDirFd(-1);
      answer.external().forEach(each -> options.addExternal(each.text()));
      message.setOpts(options);
    }
    if (!criu.send(message.build().toByteArray())) {
      return false;
    }
    if (answer.agreed()) {
      notifications.agreed(stage);
    }
    if (!notifications.canStop() && !committed) {
      committed = true;
      deadline = Deadline.after(COMMITTED_PATIENCE);
    }
    return true;
  }

  /**
   * Checks that the request was neither cancelled nor timed out.
   *
   * @param canStop whether CRIU can still be stopped without harm; if not, a cancellation is
   *     ignored
   */
  private void requireWanted(boolean canStop) throws GivenUpException {
    if (deadline.passed()) {
      throw GivenUpException.deadline();
    }
    if (canStop && context.wakeup().isCancelled()) {
      throw GivenUpException.cancelled();
    }
  }

  private Optional<Packet> next() throws NativeCallException, GivenUpException {
    while (!criu.await(deadline.millis(SLICE_MILLIS), context.wakeup().descriptor())) {
      requireWanted(notifications.canStop());
      context.watch().look();
      // Half-restored tasks keep the socket open after CRIU's death.
      if (criu.hasEnded() && !criu.await(0, -1)) {
        return Optional.empty();
      }
    }
    return criu.receive();
  }

  private static criu_resp parse(ByteBuffer message) throws GivenUpException {
    try {
      return criu_resp.parseFrom(message);
    } catch (InvalidProtocolBufferException e) {
      throw GivenUpException.garbage(message.limit(), e);
    }
  }
}
