package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.reservation.GpuMemoryCheck;
import dev.gpuprocess.internal.reservation.GpuMemoryCheck.Returning;
import dev.gpuprocess.internal.reservation.GpuUsage;
import dev.gpuprocess.options.ResumeOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The room on the GPUs that processes need which come back together. */
final class GpuRoom {

  private GpuRoom() {}

  /** The check for a resume with these options. */
  static GpuMemoryCheck check(
      EngineContext context, List<TrackedProcess> members, ResumeOptions options) {
    List<Returning> returning = new ArrayList<>();
    for (TrackedProcess each : members) {
      returning.add(new Returning(each.identity, held(each, options, returning.isEmpty())));
    }
    return new GpuMemoryCheck(context, returning, options.gpus());
  }

  /** The exception for a map of GPUs that cannot be followed. */
  static FixAndRetryException impossible(String why, Failure failure) {
    return new FixAndRetryException(
        FixAndRetryException.Reason.UNKNOWN_GPU,
        why + "; process " + failure.pid() + " stays checkpointed",
        failure);
  }

  /** What the user states is for all of them together, so it is counted once. */
  private static GpuUsage held(TrackedProcess member, ResumeOptions options, boolean isFirst) {
    Optional<GpuUsage> told = options.needs().map(GpuUsage::stated);
    return isFirst || told.isEmpty() ? told.orElse(member.held()) : GpuUsage.stated(Map.of());
  }
}
