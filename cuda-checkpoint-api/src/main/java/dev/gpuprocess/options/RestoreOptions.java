package dev.gpuprocess.options;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.internal.text.Label;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * How CRIU restores a process tree. Immutable.
 *
 * <p>A restore with {@link ProcessImage} takes what must match the dump from the image's manifest,
 * in addition to what is set here.
 */
public final class RestoreOptions extends CriuCallOptions {

  private static final RestoreOptions DEFAULTS = builder().build();

  private final Builder set;

  private RestoreOptions(Builder set) {
    super(set);
    this.set = set;
  }

  /**
   * The options that suit most processes.
   *
   * @return the defaults
   */
  public static RestoreOptions ofDefaults() {
    return DEFAULTS;
  }

  /**
   * Starts from the defaults.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Starts from these options.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  /** {@return the label that the image must have} */
  public Optional<String> expectedLabel() {
    return Optional.ofNullable(set.expectedLabel);
  }

  /** {@return the process that the image must be of} */
  public Optional<ProcessIdentity> expectedProcess() {
    return Optional.ofNullable(set.expectedProcess);
  }

  /** {@return whether this machine is not compared with that of the dump} */
  public boolean skipMachineCheck() {
    return set.skipMachineCheck;
  }

  /** {@return the file for the output of a job that gets a new terminal} */
  public Optional<Path> terminalLog() {
    return Optional.ofNullable(set.terminalLog);
  }

  /** {@return whether a job of a terminal gets the terminal of this JVM} */
  public boolean callersTerminal() {
    return set.callersTerminal;
  }

  /** {@return the caller's own check of the resumed process} */
  public Optional<Predicate<ProcessIdentity>> check() {
    return Optional.ofNullable(set.check);
  }

  /** {@return how long the check may take} */
  public Duration checkDeadline() {
    return set.checkDeadline;
  }

  /** {@return whether a process that is launched from an image survives the exit of this JVM} */
  public boolean survivesExit() {
    return set.survivesExit;
  }

  /** Builds {@link RestoreOptions}; each method names its default. */
  public static final class Builder extends CriuCallOptions.Builder<Builder> {

    private @Nullable String expectedLabel;
    private @Nullable ProcessIdentity expectedProcess;
    private boolean skipMachineCheck;
    private boolean survivesExit;
    private @Nullable Predicate<ProcessIdentity> check;
    private @Nullable Path terminalLog;
    private boolean callersTerminal;
    private Duration checkDeadline = Duration.ofMinutes(1);

    private Builder() {}

    @Override
    Builder self() {
      return this;
    }

    /**
     * The label that the image must have. A key proves that an image was made by a user with the
     * key, but not which image it is: without an expectation, anybody who can move directories can
     * make a restore take another process, or an older state. Only for {@link
     * ProcessImage#restore(RestoreOptions)}.
     *
     * @param label as given to {@link DumpOptions.Builder#label}; nothing is expected by default
     * @return this builder
     * @throws IllegalArgumentException when it is blank, longer than 200 characters, or has control
     *     characters in it
     */
    public Builder expectLabel(String label) {
      this.expectedLabel = Label.require(label);
      return this;
    }

    /**
     * The process that the image must be of, with the start time that it had when it was dumped.
     * Only for {@link ProcessImage#restore(RestoreOptions)}.
     *
     * @param process as {@link GpuProcess#identity} returned it before the dump; nothing is
     *     expected by default
     * @return this builder
     */
    public Builder expectProcess(ProcessIdentity process) {
      this.expectedProcess = process;
      return this;
    }

    /**
     * Whether the process survives the exit of this JVM. Only for {@link
     * ProcessImage#launch(RestoreOptions, ResumeOptions)}, and for a process that this JVM has not
     * launched before: that one keeps what its {@link LaunchOptions} say.
     *
     * @param survives as for {@link LaunchOptions.Builder#survivesExit}; false by default
     * @return this builder
     */
    public Builder survivesExit(boolean survives) {
      this.survivesExit = survives;
      return this;
    }

    /**
     * Removes what {@link #expectLabel} and {@link #expectProcess} set.
     *
     * @return this builder
     */
    public Builder expectNothing() {
      this.expectedLabel = null;
      this.expectedProcess = null;
      return this;
    }

    /**
     * Whether the image is restored without a look at what it needs of this machine: its CPU,
     * driver, GPUs, libraries and mounts. CRIU still refuses what it cannot restore, with its own
     * words; a process that gets further may die of what is missing. Only for {@link
     * ProcessImage#restore(RestoreOptions)} and {@link dev.gpuprocess.ProcessImage}.
     *
     * @param skipMachineCheck the new value; false by default
     * @return this builder
     */
    public Builder skipMachineCheck(boolean skipMachineCheck) {
      this.skipMachineCheck = skipMachineCheck;
      return this;
    }

    /**
     * The file to which the output of a job that was started in a terminal is appended. Such a job
     * gets a new pseudo-terminal, which a process of this library holds until the job has ended,
     * whether this JVM lives or not. The file is created with mode 0600 if it does not exist. While
     * it cannot be written, the job waits.
     *
     * @param file by default the path of the image with {@code .terminal.log} appended, or a file
     *     beside CRIU's log if that cannot be written
     * @return this builder
     */
    public Builder terminalLog(Path file) {
      this.terminalLog = file.toAbsolutePath();
      return this;
    }

    /**
     * Whether a job that was started in a terminal gets the terminal of this JVM, as with {@code
     * criu restore --shell-job}. The job joins the session of this JVM, and the foreground process
     * group stays as it is. A job that led its session, and each job if this JVM has no terminal,
     * gets a new one: see {@link #terminalLog}.
     *
     * @param callersTerminal the new value; false by default
     * @return this builder
     */
    public Builder callersTerminal(boolean callersTerminal) {
      this.callersTerminal = callersTerminal;
      return this;
    }

    /**
     * Sets a check that the resumed process must pass, such as a request to a server. For {@link
     * ProcessImage#resume(RestoreOptions, ResumeOptions)}: if the check fails, the process is ended
     * and the image stays.
     *
     * @param check called with the root of the resumed process, on a thread of its own; it fails if
     *     it returns false, throws, or does not return in time (then its thread is interrupted)
     * @param deadline how long it may take
     * @return this builder
     * @throws IllegalArgumentException unless the deadline is positive
     */
    public Builder verify(Predicate<ProcessIdentity> check, Duration deadline) {
      this.checkDeadline = Durations.positive("deadline of the check", deadline);
      this.check = check;
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     * @throws IllegalStateException when two of them exclude each other; the message names both
     */
    public RestoreOptions build() {
      return new RestoreOptions(copy());
    }
  }
}
