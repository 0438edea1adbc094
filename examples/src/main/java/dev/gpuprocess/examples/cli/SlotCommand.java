package dev.gpuprocess.examples.cli;

import dev.gpuprocess.examples.slot.SlotTimeline;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.slot.GpuSlot;
import dev.gpuprocess.slot.SlotEvent;
import java.io.IOException;
import java.net.SocketException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The commands on a slot, in which processes take turns on GPUs. */
@Command(
    name = "slot",
    description = "Let processes take turns on GPUs.",
    synopsisSubcommandLabel = "COMMAND",
    mixinStandardHelpOptions = true,
    subcommands = {
      SlotCommand.Run.class,
      SlotCommand.ListProcesses.class,
      SlotCommand.Acquire.class,
      SlotCommand.Enqueue.class,
      SlotCommand.Release.class,
      SlotCommand.Remove.class
    })
final class SlotCommand {

  /** {@code slot run}. */
  @Command(
      name = "run",
      description = {
        "Open a slot, and let its processes take turns until SIGINT, SIGTERM or --timeout.",
        "Processes stay where they are then; the next run continues with the queue."
      })
  static final class Run extends CliCommand {

    @Parameters(paramLabel = "NAME", description = "The slot.")
    private String name = "";

    @Option(
        names = "--quantum",
        paramLabel = "TIME",
        description = "How long a turn lasts at least, among equal priorities; 30s by default.")
    private @Nullable Duration quantum;

    /** The two belong together. */
    static final class Disk {
      @Option(
          names = "--host-memory",
          required = true,
          paramLabel = "SIZE",
          converter = Converters.Size.class,
          description = "Move processes to disk when the suspended ones hold more, such as 64GiB.")
      private long hostMemory;

      @Option(
          names = "--images",
          required = true,
          paramLabel = "DIR",
          description = "Where the images go.")
      private Path images = Path.of("");
    }

    @ArgGroup(exclusive = false)
    private @Nullable Disk disk;

    @Mixin private final CriuArguments criu = new CriuArguments();

    @Mixin private final LossArguments losses = new LossArguments();

    @Mixin private final PollArguments polls = new PollArguments();

    @Override
    boolean allowsPolls() {
      return polls.areAllowed();
    }

    @Override
    Attribute[] allowedLosses() {
      return losses.attributes();
    }

    @Override
    CriuOptions criu() {
      return criu.options();
    }

    @Option(
        names = "--timeline",
        paramLabel = "FILE",
        description = "At the end, write a chart: SVG if FILE ends with .svg, else text.")
    private @Nullable Path timeline;

    @Override
    int run(Session session) {
      SlotTimeline chart = new SlotTimeline();
      Consumer<SlotEvent> events = event -> print(session, event);
      GpuSlot.Builder builder =
          CommandException.valid(() -> builder(session))
              .listener(timeline == null ? events : events.andThen(chart));
      try (GpuSlot slot = builder.open();
          SlotServer server = new SlotServer(slot, socket(session, name))) {
        session.note(
            "%s is open with %s processes; it takes requests at %s"
                .formatted(slot, slot.processes().size(), server));
        awaitEnd(session.remaining());
      } finally {
        if (timeline != null) {
          write(timeline, chart);
        }
      }
      return ExitCode.DONE.code();
    }

    private GpuSlot.Builder builder(Session session) {
      GpuSlot.Builder builder = GpuSlot.named(name, session.machine());
      if (quantum != null) {
        builder.quantum(quantum);
      }
      if (disk != null) {
        builder.hostMemory(disk.hostMemory, disk.images);
      }
      return builder;
    }

    private static void print(Session session, SlotEvent event) {
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("at", event.at());
      value.put("kind", event.kind().name());
      value.put("pid", event.process().pid());
      value.put("seconds", event.took().toNanos() / 1e9);
      value.put("failure", message(event));
      session.output().result(value, OptionForm.of(event.toString()));
    }

    private static @Nullable String message(SlotEvent event) {
      return event.failure() == null || event.failure().getMessage() == null
          ? null
          : OptionForm.of(event.failure().getMessage());
    }

    /** A cancellation interrupts this thread. */
    private static void awaitEnd(Duration limit) {
      try {
        boolean unused = new CountDownLatch(1).await(limit.toMillis(), TimeUnit.MILLISECONDS);
      } catch (InterruptedException end) {
        // SIGINT, SIGTERM or --timeout, which end the command
      }
    }

    private static void write(Path file, SlotTimeline chart) {
      boolean isSvg = file.toString().toLowerCase(Locale.ROOT).endsWith(".svg");
      try {
        Files.writeString(file, isSvg ? chart.svg() : chart.text(100));
      } catch (IOException e) {
        throw new CommandException(
            ExitCode.FIX_AND_RETRY, "FILE", "the timeline cannot be written: " + e);
      }
    }
  }

  private static SlotSocket socket(Session session, String name) {
    return new SlotSocket(session.machine().stateDirectory(), name);
  }

  /** A request to the controller of a slot. */
  abstract static class Request extends CliCommand {

    @Parameters(index = "0", paramLabel = "NAME", description = "The slot.")
    private String name = "";

    /** Sends the request and returns the processes of the answer. */
    final List<Map<String, @Nullable Object>> send(
        Session session, String verb, long pid, int priority) {
      Map<String, @Nullable Object> request = new LinkedHashMap<>();
      request.put("verb", verb);
      request.put("pid", pid);
      request.put("priority", priority);
      Map<String, @Nullable Object> answer = call(session, request);
      if (answer.get("processes") instanceof List<?> all) {
        return all.stream().map(Request::fields).toList();
      }
      throw new CommandException(
          ExitCode.valueOf(String.valueOf(answer.get("group"))),
          String.valueOf(answer.get("reason")),
          String.valueOf(answer.get("message")));
    }

    private Map<String, @Nullable Object> call(
        Session session, Map<String, @Nullable Object> request) {
      try {
        return socket(session, name).call(request);
      } catch (SocketException none) {
        throw new CommandException(
            ExitCode.FIX_AND_RETRY,
            "NO_CONTROLLER",
            "slot %s is not open: start gpuprocess slot run %s".formatted(name, name));
      } catch (ClosedByInterruptException e) {
        throw new CommandException(
            ExitCode.RETRY_LATER,
            "CANCELLED",
            "the wait was cancelled: the process stays in slot %s".formatted(name));
      } catch (IOException e) {
        throw new CommandException(
            ExitCode.RETRY_LATER,
            "NO_CONTROLLER",
            "the controller of slot %s did not answer: %s".formatted(name, e));
      }
    }

    private static Map<String, @Nullable Object> fields(Object process) {
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      ((Map<?, ?>) process).forEach((name, field) -> value.put(String.valueOf(name), field));
      return value;
    }
  }

  /** {@code slot list}. */
  @Command(
      name = "list",
      description = "List the queue: processes on GPUs first, then in the order of their turns.")
  static final class ListProcesses extends Request {
    @Override
    int run(Session session) {
      session
          .output()
          .table(
              send(session, "list", 0, 0),
              "pid",
              "place",
              "priority",
              "wanted",
              "heldBytes",
              "turnSeconds",
              "image");
      return ExitCode.DONE.code();
    }
  }

  /** A request about one process. */
  abstract static class ProcessRequest extends Request {

    @Parameters(index = "1", paramLabel = "PID", description = "The root of the process.")
    private long pid;

    @Override
    OptionalLong subject() {
      return OptionalLong.of(pid);
    }

    final int send(Session session, String verb, int priority, String done) {
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("pid", pid);
      List<String> sentence = new ArrayList<>(List.of("process %s: %s".formatted(pid, done)));
      for (Map<String, @Nullable Object> each : send(session, verb, pid, priority)) {
        value.putAll(each);
        sentence.add(String.valueOf(each.get("place")));
        if (each.get("image") != null) {
          sentence.add(String.valueOf(each.get("image")));
        }
      }
      value.put("seconds", session.seconds());
      sentence.add(Words.seconds(session.seconds()));
      session.output().result(value, String.join(", ", sentence));
      return ExitCode.DONE.code();
    }
  }

  /** A request with a priority. */
  abstract static class UrgentRequest extends ProcessRequest {
    @Option(
        names = "--priority",
        paramLabel = "N",
        description = "The greater, the more urgent; 0 by default.")
    int priority;
  }

  /** {@code slot acquire}. */
  @Command(
      name = "acquire",
      description = {
        "Wait for the turn of a process, which then runs; a process that is not in the slot enters it.",
        "After Ctrl-C or --timeout it stays in the queue, and does not want a GPU."
      })
  static final class Acquire extends UrgentRequest {
    @Override
    int run(Session session) {
      return send(session, "acquire", priority, "has the GPU");
    }
  }

  /** {@code slot enqueue}. */
  @Command(name = "enqueue", description = "The same as acquire without waiting.")
  static final class Enqueue extends UrgentRequest {
    @Override
    int run(Session session) {
      return send(session, "enqueue", priority, "is in the queue");
    }
  }

  /** {@code slot release}. */
  @Command(
      name = "release",
      description = "A process no longer wants a GPU; it runs on until another process wants it.")
  static final class Release extends ProcessRequest {
    @Override
    int run(Session session) {
      return send(session, "release", 0, "wants no GPU");
    }
  }

  /** {@code slot remove}. */
  @Command(name = "remove", description = "Take a process out of the slot, and do not change it.")
  static final class Remove extends ProcessRequest {
    @Override
    int run(Session session) {
      return send(session, "remove", 0, "left the slot");
    }
  }
}
