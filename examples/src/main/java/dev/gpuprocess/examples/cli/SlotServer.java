package dev.gpuprocess.examples.cli;

import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.slot.GpuSlot;
import dev.gpuprocess.slot.SlotProcess;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Answers the requests for a slot that this JVM has open, each on a thread of its own. */
final class SlotServer implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Until the next attempt to take a request. */
  private static final long PAUSE_NANOS = 100_000_000;

  private final GpuSlot slot;
  private final SlotSocket socket;
  private final ServerSocketChannel server;

  /**
   * Begins to answer.
   *
   * @throws CommandException when the socket cannot be made
   */
  SlotServer(GpuSlot slot, SlotSocket socket) {
    this.slot = slot;
    this.socket = socket;
    try {
      this.server = socket.listen();
    } catch (IOException | UnsupportedOperationException e) {
      throw new CommandException(
          ExitCode.FIX_AND_RETRY,
          "STATE_DIRECTORY",
          "the socket %s cannot be made: %s".formatted(socket, e.getMessage()));
    }
    start(this::accept, "gpuprocess slot requests");
  }

  private static void start(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() {
    boolean waits = false;
    while (server.isOpen()) {
      try {
        SocketChannel channel = server.accept();
        try {
          start(() -> serve(channel), "gpuprocess slot request");
        } catch (OutOfMemoryError e) {
          channel.close();
          throw e;
        }
        waits = false;
      } catch (ClosedChannelException closed) {
        return;
      } catch (IOException | OutOfMemoryError e) {
        // No free descriptor or thread, which others return: the caller waits.
        if (!waits) {
          LOG.warn("requests at {} cannot be taken yet: {}", socket, e.getMessage());
        }
        waits = true;
        LockSupport.parkNanos(PAUSE_NANOS);
      }
    }
  }

  private void serve(SocketChannel channel) {
    Cancellation cancellation = new Cancellation();
    try (channel) {
      Map<String, @Nullable Object> request =
          socket.isOurs(channel) ? SlotSocket.read(channel) : Map.of("verb", "of another user");
      start(() -> reply(channel, request, cancellation), "gpuprocess slot answer");
      // The caller sends nothing more: this returns when it has the answer, or has ended.
      int unused = channel.read(ByteBuffer.allocate(1));
    } catch (IOException gone) {
      // The caller has ended, or does not run this program.
    } finally {
      cancellation.cancel();
    }
  }

  private void reply(
      SocketChannel channel, Map<String, @Nullable Object> request, Cancellation cancellation) {
    try {
      SlotSocket.write(channel, answer(request, cancellation));
    } catch (IOException gone) {
      cancellation.cancel(); // the caller has ended, and the request was cancelled
    }
  }

  private Map<String, @Nullable Object> answer(
      Map<String, @Nullable Object> request, Cancellation cancellation) {
    try {
      Map<String, @Nullable Object> answer = new LinkedHashMap<>();
      answer.put("processes", handle(request, cancellation));
      return answer;
    } catch (RuntimeException | Error e) {
      if (e instanceof Error) {
        LOG.warn("a request at {} failed", socket, e);
      }
      Map<String, @Nullable Object> answer = new LinkedHashMap<>();
      answer.put("group", ExitCode.of(e).name());
      answer.put("reason", ExitCode.reason(e));
      answer.put("message", e.getMessage() == null ? e.toString() : e.getMessage());
      return answer;
    }
  }

  private List<Map<String, @Nullable Object>> handle(
      Map<String, @Nullable Object> request, Cancellation cancellation) {
    long pid = number(request, "pid");
    int priority = Math.toIntExact(number(request, "priority"));
    switch (String.valueOf(request.get("verb"))) {
      case "list" -> {
        return slot.processes().stream().map(SlotServer::value).toList();
      }
      case "acquire" -> slot.acquire(pid, priority, ChronoUnit.FOREVER.getDuration(), cancellation);
      case "enqueue" -> slot.enqueue(pid, priority);
      case "release" -> slot.release(pid);
      case "remove" -> {
        return List.of(value(slot.remove(pid)));
      }
      default ->
          throw new CommandException(
              ExitCode.USAGE, "REQUEST", "the request is not one of this program and user");
    }
    return slot.processes().stream()
        .filter(each -> each.pid() == pid)
        .map(SlotServer::value)
        .toList();
  }

  private static long number(Map<String, @Nullable Object> request, String name) {
    return request.get(name) instanceof Number number ? number.longValue() : 0;
  }

  private static Map<String, @Nullable Object> value(SlotProcess process) {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("pid", process.pid());
    value.put("place", Words.place(process.place()));
    value.put("priority", process.priority());
    value.put("wanted", process.wanted());
    value.put("gpus", process.gpus().stream().map(gpu -> gpu.text()).toList());
    value.put("heldBytes", process.gpuBytes());
    value.put("turnSeconds", process.onGpu().toMillis() / 1e3);
    value.put("image", process.image());
    return value;
  }

  @Override
  public String toString() {
    return socket.toString();
  }

  /** Refuses further requests; those under way end with the slot. */
  @Override
  public void close() {
    try (server) {
      socket.remove();
    } catch (IOException e) {
      throw new CommandException(
          ExitCode.FIX_AND_RETRY,
          "STATE_DIRECTORY",
          "the socket %s cannot be removed: %s".formatted(socket, e.getMessage()));
    }
  }
}
