package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.Member;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.Suspension;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.Undo;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.options.DumpOptions;
import java.nio.file.Path;
import java.util.List;

/**
 * Suspend, dump leaving the process alive, resume, as one operation: an image of a job that goes
 * on.
 */
public final class Snapshot {

  private final StateHandle self;
  private final TrackedProcess target;
  private final DumpOptions options;

  /** Prepares; nothing is done yet. */
  public Snapshot(StateHandle self, DumpOptions options) {
    this.self = self;
    this.target = self.target();
    this.options = options.toBuilder().leaveStopped(false).leaveRunning(true).build();
  }

  /** Makes the image. Whatever fails, the process is resumed. */
  public DumpedImage into(Path directory) {
    new DumpCheck(target.context, target.identity, directory, options, true).require();
    return target.exclusively(
        "snapshot",
        ProcessLock.Kind.MOVE,
        self.generation(),
        operation -> {
          operation.require(ProcessState.RUNNING);
          target.note("snapshot", ProcessLock.Kind.MOVE);
          StepRecorder steps = self.measured();
          List<Member> members = List.of(new Member(operation, steps));
          ImageDirectory image;
          try {
            new Suspension(members).suspend(target.context.timeouts().lock());
            steps.rethrow();
            image = new Dump(operation, target, options, steps).into(directory);
          } catch (RuntimeException | Error e) {
            new Undo(members).backTo(ProcessState.RUNNING, e);
            throw e;
          }
          resume(members);
          steps.rethrow();
          return new DumpedImage(image, steps.taken());
        });
  }

  private void resume(List<Member> members) {
    try {
      Resumption.patient(members).resume(ProcessState.CHECKPOINTED);
    } finally {
      members.forEach(each -> target.leaveAt(each.operation().stateNow()));
    }
  }
}
