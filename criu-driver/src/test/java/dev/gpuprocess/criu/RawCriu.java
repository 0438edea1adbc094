package dev.gpuprocess.criu;

import com.google.protobuf.InvalidProtocolBufferException;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuProcess;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Packet;
import dev.gpuprocess.internal.time.Deadline;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;

/**
 * The plainest client of CRIU: sends what it is given, believes what it gets, and so falls into
 * every trap. Shows that the traps are there.
 */
final class RawCriu {

  static final String LOG = "raw.log";

  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final int EEXIST = 17;

  private RawCriu() {}

  /**
   * How it went.
   *
   * @param reply empty when CRIU ended without one
   * @param exit how CRIU ended
   * @param printed what it said besides its log
   * @param stages what it notified of
   */
  record Said(Optional<criu_resp> reply, ExitStatus exit, String printed, List<String> stages) {

    boolean success() {
      return reply.map(criu_resp::getSuccess).orElse(false);
    }

    int errno() {
      return reply.map(criu_resp::getCrErrno).orElse(0);
    }

    String message() {
      return reply.map(criu_resp::getCrErrmsg).orElse("");
    }

    int restored() {
      return reply.map(said -> said.getRestore().getPid()).orElse(0);
    }
  }

  /** The CRIU that the driver uses too. */
  static Path program() {
    return new CriuFinder(new CriuLocator()).find("test").program();
  }

  static Said ask(criu_req request) {
    return ask(program(), request, stage -> true);
  }

  static Said ask(Path program, criu_req request) {
    return ask(program, request, stage -> true);
  }

  /** Sends a request, answers each stage, and waits until CRIU has exited; otherwise kills it. */
  static Said ask(Path program, criu_req request, Predicate<String> agrees) {
    Deadline deadline = Deadline.after(PATIENCE);
    List<String> stages = new ArrayList<>();
    try (CriuProcess criu = CriuProcess.start(CriuCommand.direct(program), List.of(), null)) {
      Optional<criu_resp> reply = Optional.empty();
      boolean sent = criu.send(request.toByteArray());
      while (sent && reply.isEmpty()) {
        Optional<criu_resp> said = next(criu, deadline);
        if (said.isEmpty()) {
          break;
        }
        if (said.get().getType() != criu_req_type.NOTIFY) {
          reply = said;
        } else {
          stages.add(said.get().getNotify().getScript());
          sent = criu.send(answer(agrees.test(said.get().getNotify().getScript())));
        }
      }
      ExitStatus exit = criu.awaitExit(deadline).orElseThrow(RawCriu::tooLate);
      return new Said(reply, exit, criu.output(), stages);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static byte[] answer(boolean agreed) {
    return criu_req
        .newBuilder()
        .setType(criu_req_type.NOTIFY)
        .setNotifySuccess(agreed)
        .build()
        .toByteArray();
  }

  private static Optional<criu_resp> next(CriuProcess criu, Deadline deadline)
      throws NativeCallException, InvalidProtocolBufferException {
    while (!criu.await(deadline.millis(500), -1)) {
      if (deadline.passed()) {
        throw tooLate();
      }
    }
    Optional<Packet> packet = criu.receive();
    return packet.isPresent()
        ? Optional.of(criu_resp.parseFrom(packet.get().bytes()))
        : Optional.empty();
  }

  private static AssertionError tooLate() {
    return new AssertionError("CRIU did not end within " + PATIENCE);
  }

  /** Sends a request, and closes the connection at a stage, or at once without one. */
  static ExitStatus hangUp(criu_req request, String atStage) {
    Deadline deadline = Deadline.after(PATIENCE);
    try (CriuProcess criu = CriuProcess.start(CriuCommand.direct(program()), List.of(), null)) {
      criu.send(request.toByteArray());
      String stage = "";
      while (!stage.equals(atStage)) {
        stage = next(criu, deadline).orElseThrow().getNotify().getScript();
        if (!stage.equals(atStage)) {
          criu.send(answer(true));
        }
      }
      criu.hangUp();
      return criu.awaitExit(deadline).orElseThrow(RawCriu::tooLate);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A request that dumps a process into the site and leaves it running, and says nothing more. */
  static criu_opts.Builder dump(DumpDirectories site, long pid) {
    return restore(site).setPid(Math.toIntExact(pid)).setLeaveRunning(true).setShellJob(true);
  }

  /** A request that restores from the site. */
  static criu_opts.Builder restore(DumpDirectories site) {
    return criu_opts
        .newBuilder()
        .setImagesDirFd(-1)
        .setImagesDir(site.images().toString())
        .setShellJob(true)
        .setLogLevel(4)
        .setLogFile(LOG);
  }

  /**
   * Restores what has ended, again while its pid is not free: the kernel gives a pid back a moment
   * after its process is gone from /proc.
   */
  static Said restoreOfEnded(criu_opts.Builder opts, Predicate<String> agrees) {
    Deadline deadline = Deadline.after(PATIENCE);
    Said said;
    do {
      said = ask(program(), request(criu_req_type.RESTORE, opts), agrees);
    } while (said.errno() == EEXIST && !deadline.passed());
    return said;
  }

  static Said restoreOfEnded(DumpDirectories site) {
    return restoreOfEnded(restore(site), stage -> true);
  }

  static criu_req request(criu_req_type type, criu_opts.Builder opts) {
    return criu_req.newBuilder().setType(type).setOpts(opts).build();
  }

  /** Returns CRIU's log. */
  static String log(DumpDirectories site) {
    try {
      return Files.readString(site.images().resolve(LOG));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
