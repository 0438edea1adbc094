package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Slurm's program {@code scontrol}. A call that fails or takes too long has an answer without
 * fields: a job must go on when its controller does not respond.
 */
public final class Scontrol {

  /** A controller that is busy answers late, and the grace of a preemption is short. */
  private static final Duration LIMIT = Duration.ofSeconds(10);

  /** A user may have set another form for times, and another language. */
  private static final Map<String, String> STANDARD_FORMS =
      Map.of("SLURM_TIME_FORMAT", "standard", "LC_ALL", "C");

  private static final Pattern LINE = Pattern.compile("^(\\S+)\\s+= (.*)$", Pattern.MULTILINE);
  private static final Pattern WORD = Pattern.compile("(?:^|\\s)([A-Za-z][\\w:/]*)=(\\S*)");

  private static final Pattern SECONDS = Pattern.compile("(\\d{1,9})( sec)?");

  private final String program;

  /**
   * Creates it.
   *
   * @param program the name of the program, or its path
   */
  public Scontrol(String program) {
    this.program = program;
  }

  /**
   * The answer to a call.
   *
   * @param done whether the call succeeded
   * @param text what the program printed to both streams
   */
  public record Answer(boolean done, String text) {

    /** Returns the answer in one line. */
    String line() {
      String words = text.strip().replaceAll("\\s+", " ");
      return words.isEmpty() ? (done ? "done" : "failed without a message") : words;
    }
  }

  /** Returns the settings of the cluster; empty if they cannot be had. */
  Map<String, String> config() {
    return fields(LINE, call("show", "config"));
  }

  /** Returns the settings of a partition; empty if they cannot be had. */
  Map<String, String> partition(String name) {
    return name.isEmpty() ? Map.of() : fields(WORD, call("-o", "show", "partition", name));
  }

  /**
   * Returns the time that a partition gives to a job that is preempted.
   *
   * @param partition its name
   * @return GraceTime in seconds; empty if it is 0 or not known
   */
  public Optional<Duration> grace(String partition) {
    return seconds(partition(partition), "GraceTime");
  }

  /** Returns the time from SIGTERM to SIGKILL; empty if it is not known. */
  Optional<Duration> killWait() {
    return seconds(config(), "KillWait");
  }

  private static Optional<Duration> seconds(Map<String, String> fields, String name) {
    Matcher found = SECONDS.matcher(fields.getOrDefault(name, ""));
    return found.matches() && Long.parseLong(found.group(1)) > 0
        ? Optional.of(Duration.ofSeconds(Long.parseLong(found.group(1))))
        : Optional.empty();
  }

  /** Returns what the controller records of a job. */
  JobRecord job(SlurmJob job) {
    return new JobRecord(job, fields(WORD, call("-o", "show", "job", job.id())));
  }

  /** Puts a job that runs back into the queue, and no other; its processes get SIGTERM. */
  Answer requeue(SlurmJob job) {
    return call("requeue", "Incomplete", job.id());
  }

  /** Puts a job back into the queue whose processes end, or have ended. */
  Answer requeueEnded(SlurmJob job) {
    return call("requeue", job.id());
  }

  /** Lets a job that was submitted with {@code --no-requeue} be requeued, while it runs. */
  Answer allowRequeue(SlurmJob job) {
    return call("update", "JobId=" + job.id(), "Requeue=1");
  }

  /**
   * Returns whether the controller says that it has no such job, as some minutes after its end
   * ({@code MinJobAge}); false if it does not answer.
   *
   * @param job the id
   */
  boolean isUnknown(String job) {
    Answer answer = call("-o", "show", "job", job);
    return !answer.done() && answer.text().contains("Invalid job id");
  }

  /** Keeps a job that is queued away from nodes. */
  Answer exclude(SlurmJob job, Collection<String> nodes) {
    return call("update", "JobId=" + job.id(), "ExcNodeList=" + String.join(",", nodes));
  }

  private static Map<String, String> fields(Pattern form, Answer answer) {
    Map<String, String> fields = new LinkedHashMap<>();
    if (answer.done()) {
      Matcher found = form.matcher(answer.text());
      while (found.find()) {
        fields.putIfAbsent(found.group(1), found.group(2).strip());
      }
    }
    return fields;
  }

  private Answer call(String... arguments) {
    List<String> words = new ArrayList<>(List.of(program));
    words.addAll(List.of(arguments));
    try {
      // A full disk of temporary files must not hide that a job was requeued.
      ProgramRun.Ended ended = ProgramRun.of(words).with(STANDARD_FORMS).throughPipe().run(LIMIT);
      return new Answer(ended.exit() == 0, ended.printed());
    } catch (UncheckedIOException e) {
      return new Answer(false, String.valueOf(e.getMessage()));
    }
  }
}
