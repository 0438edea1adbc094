package dev.gpuprocess.examples.cli;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.report.Step;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The commands that change the state of a process, each a verb of the library. */
final class Transitions {

  private Transitions() {}

  /** A change of state: looks at the process, calls the verb, and prints both states. */
  abstract static class Transition extends ProcessCommand {

    /** Calls the verb if it is legal, and returns the process in its new state. */
    abstract GpuProcess apply(Session session, GpuProcess process);

    /** Refuses arguments before the process is looked at. */
    void check() {}

    @Override
    final int run(Session session) {
      check();
      GpuProcess before = session.inspect(pid);
      if (session.progress().isShown()) {
        session.progress().expect(Moved.gpuBytes(before.members()), Moved.intoMemory(before));
      }
      GpuProcess after = apply(session, before);
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("pid", after.pid());
      value.put("before", Words.state(before));
      value.put("after", Words.state(after));
      value.put("seconds", session.seconds());
      value.put("bytes", after.steps().stream().mapToLong(Step::bytes).sum());
      value.put("steps", Words.steps(after.steps()));
      session
          .output()
          .result(
              value,
              "process %s: %s -> %s, %s"
                  .formatted(
                      after.pid(),
                      Words.state(before),
                      Words.state(after),
                      Words.seconds(session.seconds())));
      return ExitCode.DONE.code();
    }
  }

  /** A change of state that locks the process first. */
  abstract static class LockingTransition extends Transition {

    @Option(
        names = "--lock-timeout",
        paramLabel = "TIME",
        description = "Wait so long for GPU work that is under way.")
    private @Nullable Duration lockTimeout;

    @Option(
        names = "--label",
        paramLabel = "TEXT",
        description = "A label for the suspended process, which ps prints.")
    private @Nullable String label;

    @Mixin private final FirstProcess first = new FirstProcess();

    @Override
    final void check() {
      first.requireMeant(pid);
    }

    final LockedProcess lock(Session session, RunningProcess process) {
      Duration left = session.remaining();
      return lockTimeout == null && timeout == null
          ? process.lock()
          : process.lock(
              lockTimeout == null || lockTimeout.compareTo(left) > 0 ? left : lockTimeout);
    }

    final CheckpointedProcess suspend(Session session, RunningProcess process) {
      return process.suspend(CommandException.valid(() -> builder(session).build()));
    }

    private SuspendOptions.Builder builder(Session session) {
      SuspendOptions.Builder options =
          SuspendOptions.builder()
              .cancellation(session.cancellation())
              .deadline(session.remaining());
      if (lockTimeout != null) {
        options.lockTimeout(lockTimeout);
      }
      if (label != null) {
        options.label(label);
      }
      return options;
    }
  }

  /** {@code lock}. */
  @Command(name = "lock", description = "Block the CUDA calls of a running process.")
  static final class Lock extends LockingTransition {
    @Override
    GpuProcess apply(Session session, GpuProcess process) {
      if (process instanceof RunningProcess running) {
        return lock(session, running);
      }
      throw wrongState(process, "only a running process can be locked");
    }
  }

  /** {@code checkpoint}. */
  @Command(
      name = "checkpoint",
      description = "Move the GPU memory of a locked process to the host.")
  static final class Checkpoint extends Transition {

    @Mixin private final SaveArguments save = new SaveArguments();

    @Mixin private final PollArguments polls = new PollArguments();

    @Override
    boolean allowsPolls() {
      return polls.areAllowed();
    }

    @Override
    boolean usesSaveFiles() {
      return save.usesSaveFiles();
    }

    @Override
    GpuProcess apply(Session session, GpuProcess process) {
      if (process instanceof LockedProcess locked) {
        return locked.checkpoint();
      }
      throw wrongState(process, "lock it first, or use suspend");
    }
  }

  /** {@code restore}. */
  @Command(
      name = "restore",
      description = "Move the memory of a checkpointed process back to its GPU; it stays locked.")
  static final class Restore extends Transition {

    @Mixin private final ResumeArguments resume = new ResumeArguments();

    @Override
    GpuProcess apply(Session session, GpuProcess process) {
      if (process instanceof CheckpointedProcess checkpointed) {
        return checkpointed.restore(resume.options(session));
      }
      throw wrongState(process, "only a checkpointed process can be restored");
    }
  }

  /** {@code unlock}. */
  @Command(name = "unlock", description = "Release the CUDA calls of a locked process.")
  static final class Unlock extends Transition {
    @Override
    GpuProcess apply(Session session, GpuProcess process) {
      if (process instanceof LockedProcess locked) {
        return locked.unlock();
      }
      throw wrongState(process, "only a locked process can be unlocked");
    }
  }

  /** {@code suspend}. */
  @Command(name = "suspend", description = "Free the GPU: lock and checkpoint as one operation.")
  static final class Suspend extends LockingTransition {

    @Mixin private final SaveArguments save = new SaveArguments();

    @Mixin private final PollArguments polls = new PollArguments();

    @Override
    boolean allowsPolls() {
      return polls.areAllowed();
    }

    @Override
    boolean usesSaveFiles() {
      return save.usesSaveFiles();
    }

    @Override
    GpuProcess apply(Session session, GpuProcess process) {
      if (process instanceof RunningProcess running) {
        return suspend(session, running);
      }
      throw wrongState(process, "only a running process can be suspended");
    }
  }

  /** {@code resume}. */
  @Command(
      name = "resume",
      description = "Let a locked or checkpointed process run again; a running one is not changed.")
  static final class Resume extends Transition {

    @Mixin private final ResumeArguments resume = new ResumeArguments();

    @Override
    GpuProcess apply(Session session, GpuProcess process) {
      return session.machine().resume(pid, resume.options(session));
    }
  }

  /** {@code toggle}. */
  @Command(
      name = "toggle",
      description = "Suspend a running process, or resume a checkpointed one.")
  static final class Toggle extends LockingTransition {

    @Mixin private final ResumeArguments resume = new ResumeArguments();

    @Mixin private final SaveArguments save = new SaveArguments();

    @Mixin private final PollArguments polls = new PollArguments();

    @Override
    boolean allowsPolls() {
      return polls.areAllowed();
    }

    @Override
    boolean usesSaveFiles() {
      return save.usesSaveFiles();
    }

    @Override
    GpuProcess apply(Session session, GpuProcess process) {
      if (process instanceof RunningProcess running) {
        return suspend(session, running);
      }
      if (process instanceof CheckpointedProcess checkpointed) {
        return checkpointed.resume(resume.options(session));
      }
      throw wrongState(process, "unlock it or checkpoint it");
    }
  }
}
