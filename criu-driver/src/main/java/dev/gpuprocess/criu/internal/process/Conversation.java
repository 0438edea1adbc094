package dev.gpuprocess.criu.internal.process;

import com.google.protobuf.InvalidProtocolBufferException;
import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.LibC;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.os.Packet;
import dev.gpuprocess.criu.internal.os.Posix;
import dev.gpuprocess.criu.proto.Rpc.criu_notify;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.options.External;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One request, the notifications on the way, and the reply. */
public final class Conversation {

  private static final Logger LOG = LoggerFactory.getLogger(Conversation.class);
  private static final int SLICE_MILLIS = 500;

  /** For what CRIU does in a moment; an end to one that hangs. */
  private static final Duration COMMITTED_PATIENCE = Duration.ofSeconds(20);

  /** Answers what CRIU asks on the way. */
  public interface Notifications {

    /** Refuses everything; for requests that have no notifications. */
    Notifications NONE = stage -> Answer.NO;

    /** Told at a stage. */
    Answer reached(Stage stage);

    /** False once CRIU cannot be stopped without harm: then it is let come to its end. */
    default boolean canStop() {
      return true;
    }

    /**
     * True once CRIU has our word for what cannot be taken back, and all that is left to do takes a
     * moment: the deadline of the request then ends nothing any more.
     */
    default boolean isCommitted() {
      return false;
    }
  }

  /**
   * How far CRIU has come.
   *
   * @param script its name of the stage
   * @param pid the root of the tree where CRIU tells it, else 0
   * @param descriptor what came with it, closed once it is answered; -1 for nothing
   */
  public record Stage(String script, int pid, int descriptor) {}

  /**
   * What is answered.
   *
   * @param agreed false to refuse
   * @param external what else is not part of the tree
   */
  public record Answer(boolean agreed, List<External> external) {
    public static final Answer YES = new Answer(true, List.of());
    public static final Answer NO = new Answer(false, List.of());
  }

  /**
   * How it ended.
   *
   * @param message what CRIU answered, null when it ended without a word or was given up
   * @param givenUp why it was no use to wait any longer, null when it was; CRIU still runs then
   */
  record Reply(@Nullable criu_resp message, @Nullable GivenUpException givenUp) {

    /** Whether CRIU has done what it was asked for. */
    boolean good() {
      return message != null && message.getSuccess();
    }
  }

  /** Looks around between messages. */
  public interface Watch {

    /** Sees nothing. */
    Watch NONE = () -> {};

    /**
     * Called now and then while CRIU works.
     *
     * @throws GivenUpException when it is no use to wait any longer
     */
    void look() throws GivenUpException;
  }

  private final CriuProcess criu;
  private final CallContext supervision;
  private final Notifications notifications;
  private Deadline deadline;
  private boolean committed;

  Conversation(CriuProcess criu, CallContext supervision) {
    this.criu = criu;
    this.supervision = supervision;
    this.notifications = supervision.notifications();
    this.deadline = supervision.deadline();
  }

  /** Asks, and answers notifications until the reply comes. */
  Reply ask(criu_req request) {
    try {
      return new Reply(converse(request).orElse(null), null);
    } catch (GivenUpException e) {
      return new Reply(null, e);
    } catch (NativeCallException e) {
      return new Reply(null, GivenUpException.broken(e));
    }
  }

  /** Returns empty when CRIU ended without a reply. */
  private Optional<criu_resp> converse(criu_req request)
      throws NativeCallException, GivenUpException {
    LOG.debug("criu {}: {}", criu.child(), request.getType());
    requireWanted(notifications.canStop());
    if (!criu.send(request.toByteArray())) {
      return Optional.empty();
    }
    // CRIU is at work now: the best time for what we need only afterwards.
    Posix.load();
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
        if (!answer(message.getNotify(), packet.get().descriptor())) {
          return Optional.empty();
        }
      } finally {
        LibC.close(packet.get().descriptor());
      }
    }
  }

  /** Returns false when CRIU is gone. */
  private boolean answer(criu_notify notify, int descriptor)
      throws NativeCallException, GivenUpException {
    boolean canStop = notifications.canStop();
    Answer answer =
        notifications.reached(new Stage(notify.getScript(), notify.getPid(), descriptor));
    // Not sent yet, so whatever the answer is, it can still be taken back.
    requireWanted(canStop);
    LOG.debug("criu {}: {} answered {}", criu.child(), notify.getScript(), answer);
    criu_req.Builder message =
        criu_req.newBuilder().setType(criu_req_type.NOTIFY).setNotifySuccess(answer.agreed());
    if (!answer.external().isEmpty()) {
      // The directory has to be there and is not looked at.
      criu_opts.Builder options = criu_opts.newBuilder().setImagesDirFd(-1);
      answer.external().forEach(each -> options.addExternal(each.text()));
      message.setOpts(options);
    }
    if (notifications.isCommitted() && !committed) {
      committed = true;
      deadline = Deadline.after(COMMITTED_PATIENCE);
    }
    return criu.send(message.build().toByteArray());
  }

  private void requireWanted(boolean canStop) throws GivenUpException {
    supervision.requireWanted(deadline, canStop);
  }

  private Optional<Packet> next() throws NativeCallException, GivenUpException {
    while (!criu.await(deadline.millis(SLICE_MILLIS), supervision.wakeup().descriptor())) {
      requireWanted(notifications.canStop());
      supervision.watch().look();
      // Tasks that it had half restored hold the socket open after its death.
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
