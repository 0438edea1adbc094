package dev.gpuprocess.examples.agent;

import com.google.protobuf.Timestamp;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.examples.agent.protocol.timeslice.AcquireRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.AcquireResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.GetGroupStatusRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.GetGroupStatusResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.GroupStatus;
import dev.gpuprocess.examples.agent.protocol.timeslice.ListGroupsRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.ListGroupsResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.SnapshotAgentJobState;
import dev.gpuprocess.examples.agent.protocol.timeslice.YieldRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.YieldResponse;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.GpuSlot;
import dev.gpuprocess.slot.SlotEvent;
import dev.gpuprocess.slot.SlotProcess;
import dev.gpuprocess.slot.SlotProcess.Place;
import io.grpc.BindableService;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The protocol of llm-d by which jobs take turns, with a {@link GpuSlot} for each group. */
final class TimeSliceService implements BindableService, AutoCloseable {

  static final String NAME = "timeslice_orchestrator.v1alpha1.TimeSliceOrchestratorService";

  /** A job keeps its turn until it yields. */
  private static final Duration UNTIL_YIELD = Duration.ofDays(3650);

  /** The process is in the slot no more. */
  private static final Set<SlotEvent.Kind> LEFT =
      Set.of(SlotEvent.Kind.ENDED, SlotEvent.Kind.REMOVED);

  private static final Pattern GROUP = Pattern.compile("\\w[\\w.-]{0,62}");

  private final GpuCheckpoints machine;
  private final Jobs jobs;
  private final AgentMetrics metrics;
  private final String node;
  private final CallThreads threads;

  /** Its {@code computeIfAbsent} is atomic: a slot that is open cannot be opened again. */
  private final ConcurrentHashMap<String, Group> groups = new ConcurrentHashMap<>();

  TimeSliceService(
      GpuCheckpoints machine, Jobs jobs, AgentMetrics metrics, String node, CallThreads threads) {
    this.machine = machine;
    this.jobs = jobs;
    this.metrics = metrics;
    this.node = node;
    this.threads = threads;
    metrics.waitingFrom(
        () ->
            groups.entrySet().stream()
                .collect(
                    Collectors.toMap(
                        Map.Entry::getKey, each -> waiters(each.getValue().slot.processes()))));
  }

  /** A slot, with the names of the jobs in it. */
  private static final class Group {

    private final GpuSlot slot;
    private final Map<ProcessIdentity, String> names = new ConcurrentHashMap<>();

    /** The calls that use it, changed by {@code compute} of the map of groups. */
    private int users;

    private volatile Instant changed = Instant.now();

    Group(GpuSlot.Builder description, AgentMetrics metrics) {
      slot =
          description
              .quantum(UNTIL_YIELD)
              .listener(
                  event -> {
                    changed = event.at();
                    if (LEFT.contains(event.kind())) {
                      names.remove(event.process());
                    }
                    count(event, metrics);
                  })
              .open();
    }

    private static void count(SlotEvent event, AgentMetrics metrics) {
      if (event.kind() == SlotEvent.Kind.SUSPENDED) {
        metrics.suspended(event.took());
      } else if (event.kind() == SlotEvent.Kind.STARTED && !event.took().isZero()) {
        metrics.resumed(event.took());
      }
    }

    /** Forgets the names of processes that did not come in, unless more may come. */
    void forgetAbsent() {
      if (users == 0) {
        boolean unused =
            names.keySet().retainAll(slot.processes().stream().map(SlotProcess::process).toList());
      }
    }

    boolean isEmpty() {
      return users == 0 && slot.processes().isEmpty();
    }

    Optional<SlotProcess> process(String job, Jobs jobs) {
      return slot.processes().stream().filter(each -> name(each, jobs).equals(job)).findFirst();
    }

    String name(SlotProcess process, Jobs jobs) {
      return names.computeIfAbsent(process.process(), jobs::nameOf);
    }
  }

  @Override
  public ServerServiceDefinition bindService() {
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(NAME);
    Rpc.unary(
        service,
        NAME + "/Acquire",
        AcquireRequest.getDefaultInstance(),
        AcquireResponse.getDefaultInstance(),
        threads.waiting(),
        this::acquire);
    Rpc.unary(
        service,
        NAME + "/Yield",
        YieldRequest.getDefaultInstance(),
        YieldResponse.getDefaultInstance(),
        threads.brief(),
        this::yieldTurn);
    Rpc.unary(
        service,
        NAME + "/ListGroups",
        ListGroupsRequest.getDefaultInstance(),
        ListGroupsResponse.getDefaultInstance(),
        threads.brief(),
        request ->
            ListGroupsResponse.newBuilder()
                .addAllGroupIds(groups.keySet().stream().sorted().toList())
                .build());
    Rpc.unary(
        service,
        NAME + "/GetGroupStatus",
        GetGroupStatusRequest.getDefaultInstance(),
        GetGroupStatusResponse.getDefaultInstance(),
        threads.brief(),
        this::status);
    return service.build();
  }

  private AcquireResponse acquire(AcquireRequest request) {
    String job = Jobs.name(request.getJobId());
    long began = System.nanoTime();
    // A group is opened for jobs that exist only.
    long pid =
        Optional.ofNullable(groups.get(request.getGroupId()))
            .flatMap(known -> known.process(job, jobs))
            .map(queued -> (long) queued.pid())
            .orElseGet(() -> jobs.root(job, List.of()));
    Group group = group(request.getGroupId());
    RunningProcess running;
    try {
      ProcessIdentity.of(pid).ifPresent(identity -> group.names.put(identity, job));
      running = group.slot.acquire(pid, 0, ChronoUnit.FOREVER.getDuration(), Rpc.cancellation());
    } finally {
      left(request.getGroupId());
    }
    return AcquireResponse.newBuilder()
        .setSuccess(true)
        .setWaitedMs((System.nanoTime() - began) / 1_000_000)
        .setContextRestored(!running.steps().isEmpty())
        .build();
  }

  private Group group(String id) {
    if (!GROUP.matcher(id).matches()) {
      throw Status.INVALID_ARGUMENT
          .withDescription(
              "a group is named by 1 to 63 letters, digits, dots, hyphens and underscores")
          .asRuntimeException();
    }
    if (!groups.containsKey(id)) {
      closeEmpty();
    }
    return groups.compute(
        id,
        (name, known) -> {
          Group group =
              known == null ? new Group(GpuSlot.named("agent-" + name, machine), metrics) : known;
          group.users++;
          return group;
        });
  }

  private void left(String id) {
    groups.computeIfPresent(
        id,
        (name, group) -> {
          group.users--;
          group.forgetAbsent();
          return group;
        });
  }

  /** Closes the slots that nothing is in: each has threads, and clients name the groups. */
  private void closeEmpty() {
    for (String id : groups.keySet()) {
      groups.computeIfPresent(
          id,
          (name, group) -> {
            if (!group.isEmpty()) {
              return group;
            }
            group.slot.close();
            return null;
          });
    }
  }

  /** A job may have its turn from the agent that ran here before: the queue of that one goes on. */
  private Group reopened(String id, String job) {
    jobs.root(job, List.of()); // the job exists
    Group group = group(id);
    left(id);
    return group;
  }

  private Group known(String id) {
    return Optional.ofNullable(groups.get(id))
        .orElseThrow(
            () ->
                Status.NOT_FOUND
                    .withDescription("no job has acquired this group since the agent was started")
                    .asRuntimeException());
  }

  private YieldResponse yieldTurn(YieldRequest request) {
    String job = Jobs.name(request.getJobId());
    Group group =
        Optional.ofNullable(groups.get(request.getGroupId()))
            .orElseGet(() -> reopened(request.getGroupId(), job));
    SlotProcess holder =
        group
            .process(job, jobs)
            .filter(TimeSliceService::hasTurn)
            .orElseThrow(
                () ->
                    Status.PERMISSION_DENIED
                        .withDescription("it is not the turn of job " + job)
                        .asRuntimeException());
    long waiters = waiters(group.slot.processes());
    group.slot.release(holder.pid());
    return YieldResponse.newBuilder()
        .setSuccess(true)
        .setPendingWaiters(waiters)
        .setSnapshotDeferred(waiters == 0)
        .build();
  }

  private static boolean hasTurn(SlotProcess process) {
    return process.place() == Place.GPU && process.wanted();
  }

  private static long waiters(List<SlotProcess> processes) {
    return processes.stream().filter(each -> each.wanted() && each.place() != Place.GPU).count();
  }

  private GetGroupStatusResponse status(GetGroupStatusRequest request) {
    Group group = known(request.getGroupId());
    List<SlotProcess> processes = group.slot.processes();
    Optional<SlotProcess> holder = processes.stream().filter(TimeSliceService::hasTurn).findFirst();
    Optional<SlotProcess> loaded =
        holder.or(() -> processes.stream().filter(each -> each.place() == Place.GPU).findFirst());
    String onGpu = loaded.map(each -> group.name(each, jobs)).orElse("");
    long waiters = waiters(processes);
    GroupStatus.State state;
    if (holder.isPresent()) {
      state = GroupStatus.State.STATE_LOCKED;
    } else if (waiters > 0) {
      state = GroupStatus.State.STATE_SWITCHING;
    } else {
      state =
          loaded.isPresent() ? GroupStatus.State.STATE_IDLE_YIELDED : GroupStatus.State.STATE_IDLE;
    }
    Instant changed = group.changed;
    GetGroupStatusResponse.Builder reply =
        GetGroupStatusResponse.newBuilder()
            .setGroup(
                GroupStatus.newBuilder()
                    .setGroupId(request.getGroupId())
                    .setGroupState(state)
                    .setStateTimestamp(
                        Timestamp.newBuilder()
                            .setSeconds(changed.getEpochSecond())
                            .setNanos(changed.getNano()))
                    .setLockingJob(holder.isPresent() ? onGpu : "")
                    .setActiveJob(onGpu)
                    .setLoadedJob(onGpu)
                    .setWaiterQueueDepth(waiters));
    for (SlotProcess each : processes) {
      reply.addAgentJobStates(
          SnapshotAgentJobState.newBuilder()
              .setAgent(node)
              .setJobId(group.name(each, jobs))
              .setJobState(
                  each.place() == Place.GPU
                      ? SnapshotAgentJobState.State.STATE_RUNNING
                      : SnapshotAgentJobState.State.STATE_SAVED));
    }
    return reply.build();
  }

  /** Leaves all jobs where they are. */
  @Override
  public void close() {
    groups.values().forEach(group -> group.slot.close());
  }
}
