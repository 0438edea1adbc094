package dev.gpuprocess.examples.agent;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.examples.agent.Operations.Operation;
import dev.gpuprocess.examples.agent.protocol.snapshot.AcceleratorStatus;
import dev.gpuprocess.examples.agent.protocol.snapshot.BackendConfig;
import dev.gpuprocess.examples.agent.protocol.snapshot.BackendConfig.BackendCase;
import dev.gpuprocess.examples.agent.protocol.snapshot.GetOperationRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.GetOperationResponse;
import dev.gpuprocess.examples.agent.protocol.snapshot.JobState;
import dev.gpuprocess.examples.agent.protocol.snapshot.JobStatus;
import dev.gpuprocess.examples.agent.protocol.snapshot.OperationStatus;
import dev.gpuprocess.examples.agent.protocol.snapshot.RestoreRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.RestoreResponse;
import dev.gpuprocess.examples.agent.protocol.snapshot.SnapshotRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.SnapshotResponse;
import dev.gpuprocess.examples.agent.protocol.snapshot.StatusRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.StatusResponse;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.SuspendOptions;
import io.grpc.BindableService;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;

/** The node protocol of llm-d: suspends and resumes jobs, in the background. */
final class SnapshotAgentService implements BindableService {

  static final String NAME = "snapshot_agent.v1alpha1.SnapshotAgentService";

  /** The id of an operation that is not needed, as llm-d's agent returns it. */
  static final String ALREADY_RUNNING = "already-running";

  private final GpuCheckpoints machine;
  private final Jobs jobs;
  private final Operations operations;
  private final AgentMetrics metrics;
  private final CallThreads threads;

  SnapshotAgentService(
      GpuCheckpoints machine,
      Jobs jobs,
      Operations operations,
      AgentMetrics metrics,
      CallThreads threads) {
    this.machine = machine;
    this.jobs = jobs;
    this.operations = operations;
    this.metrics = metrics;
    this.threads = threads;
  }

  @Override
  public ServerServiceDefinition bindService() {
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(NAME);
    Rpc.unary(
        service,
        NAME + "/Snapshot",
        SnapshotRequest.getDefaultInstance(),
        SnapshotResponse.getDefaultInstance(),
        threads.brief(),
        this::snapshot);
    Rpc.unary(
        service,
        NAME + "/Restore",
        RestoreRequest.getDefaultInstance(),
        RestoreResponse.getDefaultInstance(),
        threads.brief(),
        this::restore);
    Rpc.unary(
        service,
        NAME + "/GetOperation",
        GetOperationRequest.getDefaultInstance(),
        GetOperationResponse.getDefaultInstance(),
        threads.brief(),
        this::operation);
    Rpc.unary(
        service,
        NAME + "/Status",
        StatusRequest.getDefaultInstance(),
        StatusResponse.getDefaultInstance(),
        threads.brief(),
        request -> status());
    return service.build();
  }

  private SnapshotResponse snapshot(SnapshotRequest request) {
    String job = Jobs.name(request.getJobId());
    List<Integer> pids = pids(request.getBackendConfig());
    String id =
        operations
            .begin(
                job,
                () -> {
                  List<Long> roots = jobs.roots(job, pids);
                  requireState(job, "suspended", roots, Jobs.State.RUNNING);
                  return cancellation ->
                      metrics.checkpoint(() -> suspend(job, roots, cancellation));
                })
            .orElseThrow();
    return SnapshotResponse.newBuilder().setOperationId(id).build();
  }

  private RestoreResponse restore(RestoreRequest request) {
    String job = Jobs.name(request.getJobId());
    List<Integer> pids = pids(request.getBackendConfig());
    String id =
        operations
            .begin(
                job,
                () -> {
                  List<Long> roots = jobs.roots(job, pids);
                  if (jobs.state(roots) == Jobs.State.RUNNING) {
                    return null;
                  }
                  requireState(job, "resumed", roots, Jobs.State.SAVED);
                  return cancellation -> metrics.restore(() -> resume(roots, cancellation));
                })
            .orElse(ALREADY_RUNNING);
    return RestoreResponse.newBuilder().setOperationId(id).build();
  }

  private static List<Integer> pids(BackendConfig config) {
    BackendCase backend = config.getBackendCase();
    if (backend == BackendCase.DIRECT_MEMORY || backend == BackendCase.MEMORY_REGIONS) {
      // llm-d's agent refuses them so, unless it was started with them.
      throw Status.FAILED_PRECONDITION
          .withDescription("this agent has no backend for parts of the GPU memory; use cuda")
          .asRuntimeException();
    }
    if (backend == BackendCase.APP_ENDPOINT || backend == BackendCase.APP_CHANNEL) {
      throw Status.UNIMPLEMENTED
          .withDescription("this agent has no backend that calls applications; use cuda")
          .asRuntimeException();
    }
    List<Integer> pids = config.getCuda().getExplicitTarget().getPidsList();
    if (pids.stream().anyMatch(pid -> pid <= 1)) {
      throw Status.INVALID_ARGUMENT.withDescription("a pid is at least 2").asRuntimeException();
    }
    return pids;
  }

  private void requireState(String job, String verb, List<Long> roots, Jobs.State needed) {
    Jobs.State state = jobs.state(roots);
    if (state == Jobs.State.MOVING) {
      throw Status.ABORTED
          .withDescription("another controller is at work on job %s; retry".formatted(job))
          .asRuntimeException();
    }
    if (state != needed) {
      throw Status.FAILED_PRECONDITION
          .withDescription(
              roots.isEmpty()
                  ? "no process of job %s uses CUDA on this node".formatted(job)
                  : "job %s cannot be %s: it is %s, and must be %s"
                      .formatted(job, verb, state, needed))
          .asRuntimeException();
    }
  }

  /** Suspends all trees of a job, or none. */
  long suspend(String job, List<Long> roots, Cancellation cancellation) {
    SuspendOptions options = SuspendOptions.builder().cancellation(cancellation).label(job).build();
    List<CheckpointedProcess> done = new ArrayList<>();
    try {
      for (long root : roots) {
        done.add(machine.suspend(root, options));
      }
      return done.stream().mapToLong(SnapshotAgentService::bytes).sum();
    } catch (RuntimeException | Error e) {
      for (CheckpointedProcess each : done) {
        try {
          RunningProcess unused = each.resume();
        } catch (RuntimeException | Error alsoFailed) {
          e.addSuppressed(alsoFailed);
        }
      }
      throw e;
    }
  }

  private long resume(List<Long> roots, Cancellation cancellation) {
    ResumeOptions options = ResumeOptions.builder().cancellation(cancellation).build();
    long bytes = 0;
    for (long root : roots) {
      bytes += bytes(machine.resume(root, options));
    }
    return bytes;
  }

  private static long bytes(GpuProcess process) {
    return process.members().stream()
        .flatMap(member -> member.gpuBytes().values().stream())
        .mapToLong(Long::longValue)
        .sum();
  }

  private GetOperationResponse operation(GetOperationRequest request) {
    GetOperationResponse.Builder reply = GetOperationResponse.newBuilder();
    if (request.getOperationId().equals(ALREADY_RUNNING)) {
      return reply.setStatus(OperationStatus.OPERATION_STATUS_COMPLETE).build();
    }
    Operation operation =
        operations
            .find(request.getOperationId())
            .orElseThrow(
                () ->
                    Status.NOT_FOUND
                        .withDescription("this agent has no such operation")
                        .asRuntimeException());
    boolean pending = operation.isPending();
    reply.setElapsedMs(operation.elapsed().toMillis());
    String failure = operation.failure();
    if (pending) {
      return reply.setStatus(OperationStatus.OPERATION_STATUS_PENDING).build();
    }
    if (failure != null) {
      return reply.setStatus(OperationStatus.OPERATION_STATUS_FAILED).setError(failure).build();
    }
    return reply
        .setStatus(OperationStatus.OPERATION_STATUS_COMPLETE)
        .setStorageBytes(operation.bytes())
        .setSnapshotDeviceBytes(operation.bytes())
        .build();
  }

  private StatusResponse status() {
    StatusResponse.Builder reply = StatusResponse.newBuilder();
    jobs.all()
        .forEach(
            (job, roots) ->
                reply.addJobStatuses(
                    JobStatus.newBuilder().setJobId(job).setState(state(job, roots))));
    machine
        .gpus()
        .gpus()
        .orElse(List.of())
        .forEach(
            gpu ->
                reply.addAcceleratorStatuses(
                    AcceleratorStatus.newBuilder()
                        .setId(gpu.uuid().text())
                        .setMemoryUsedBytes(gpu.totalBytes() - gpu.freeBytes())
                        .setMemoryTotalBytes(gpu.totalBytes())));
    return reply.build();
  }

  private JobState state(String job, List<Long> roots) {
    if (operations.isBusy(job)) {
      return JobState.JOB_STATE_TRANSITIONING;
    }
    return switch (jobs.state(roots)) {
      case IDLE -> JobState.JOB_STATE_IDLE;
      case RUNNING -> JobState.JOB_STATE_RUNNING;
      case MOVING -> JobState.JOB_STATE_TRANSITIONING;
      case SAVED -> JobState.JOB_STATE_SAVED;
      case FAULTED -> JobState.JOB_STATE_FAULTED;
    };
  }
}
