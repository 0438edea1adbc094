package dev.gpuprocess.examples.agent;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.examples.agent.ControlGroups.Container;
import dev.gpuprocess.report.ListedProcess;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.SuspendedProcess;
import io.grpc.Status;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The processes of jobs. A job is named by the caller with its pids, by the variable {@link
 * #VARIABLE} in the environment of the processes of a pod, or by the uid of a pod. May be used from
 * any thread.
 */
final class Jobs {

  /** Names the job of a pod's processes; the manifest of the pod sets it from a label. */
  static final String VARIABLE = "GPUPROCESS_JOB";

  /** What the value of a label may be. It is also the name of a directory. */
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9]([\\w.-]{0,61}[A-Za-z0-9])?");

  private final GpuCheckpoints machine;
  private final ControlGroups groups;
  private final Map<String, List<ProcessIdentity>> named = new ConcurrentHashMap<>();

  /**
   * Creates the search.
   *
   * @param proc {@code /proc}
   */
  Jobs(GpuCheckpoints machine, Path proc) {
    this.machine = machine;
    this.groups = new ControlGroups(proc);
  }

  /** What the processes of a job do. */
  enum State {
    /** There is none that uses CUDA. */
    IDLE,
    RUNNING,
    /** A verb is at work on one. */
    MOVING,
    /** One of them at least is suspended, and a restore resumes those that are. */
    SAVED,
    /** One cannot run again. */
    FAULTED
  }

  /** Returns a name that was checked. */
  static String name(String job) {
    if (!NAME.matcher(job).matches()) {
      throw Status.INVALID_ARGUMENT
          .withDescription(
              "a job is named by 1 to 63 letters, digits, dots, hyphens and underscores, as the"
                  + " value of a label")
          .asRuntimeException();
    }
    return job;
  }

  /**
   * Returns the roots of the process trees of a job.
   *
   * @param job its name
   * @param pids the processes that the caller named; empty to find them
   * @return empty if no process of the job is here
   */
  List<Long> roots(String job, Collection<Integer> pids) {
    if (!pids.isEmpty()) {
      return remember(job, pids);
    }
    List<Long> known = alive(named.getOrDefault(job, List.of()));
    return known.isEmpty() ? all().getOrDefault(job, List.of()) : known;
  }

  private static List<Long> alive(List<ProcessIdentity> roots) {
    return roots.stream().filter(ProcessIdentity::isAlive).map(each -> (long) each.pid()).toList();
  }

  /** Returns the only root of a job, for verbs that move one tree. */
  long root(String job, Collection<Integer> pids) {
    List<Long> roots = roots(job, pids);
    if (roots.size() != 1) {
      throw Status.FAILED_PRECONDITION
          .withDescription(
              roots.isEmpty()
                  ? "no process of job %s uses CUDA on this node".formatted(job)
                  : "job %s has %s process trees; this call moves one".formatted(job, roots.size()))
          .asRuntimeException();
    }
    return roots.get(0);
  }

  private List<Long> remember(String job, Collection<Integer> pids) {
    Set<Long> all = new LinkedHashSet<>();
    pids.forEach(pid -> all.add((long) pid));
    List<Long> roots = all.stream().filter(pid -> !hasAncestor(pid, all)).toList();
    List<ProcessIdentity> identities = new ArrayList<>();
    for (long pid : roots) {
      identities.add(
          ProcessIdentity.of(pid)
              .orElseThrow(
                  () ->
                      Status.NOT_FOUND
                          .withDescription("process %s does not exist".formatted(pid))
                          .asRuntimeException()));
    }
    named.put(job, List.copyOf(identities));
    return roots;
  }

  /** Keeps the process of a job that was restored from an image. */
  void restored(String job, ProcessIdentity root) {
    named.put(job, List.of(root));
  }

  /** Returns the jobs whose processes are on this node, with the roots of their trees. */
  Map<String, List<Long>> all() {
    Map<String, List<Long>> all = suspended();
    all.putAll(inPods());
    named.values().removeIf(roots -> alive(roots).isEmpty());
    named.forEach((job, roots) -> all.put(job, alive(roots)));
    return all;
  }

  /** Returns the job of a process, or its pid in words if no job is known. */
  String nameOf(ProcessIdentity root) {
    for (Map.Entry<String, List<ProcessIdentity>> each : named.entrySet()) {
      if (each.getValue().contains(root)) {
        return each.getKey();
      }
    }
    return groups
        .container(root.pid())
        .map(container -> podJob(root.pid(), container))
        .orElse("pid-" + root.pid());
  }

  /** Returns what the trees of a job do. */
  State state(Collection<Long> roots) {
    Set<State> states = roots.stream().map(this::state).collect(Collectors.toSet());
    if (states.contains(State.MOVING)) {
      return State.MOVING;
    }
    if (states.contains(State.FAULTED)) {
      return State.FAULTED;
    }
    if (states.contains(State.SAVED)) {
      return State.SAVED;
    }
    return states.contains(State.RUNNING) ? State.RUNNING : State.IDLE;
  }

  private State state(long root) {
    try {
      GpuProcess process = machine.inspect(root);
      if (process instanceof RunningProcess) {
        return State.RUNNING;
      }
      return process instanceof CheckpointedProcess ? State.SAVED : State.FAULTED;
    } catch (NoSuchProcessException | NotCudaProcessException e) {
      return State.IDLE;
    } catch (OperationInProgressException e) {
      return State.MOVING;
    } catch (FixAndRetryException e) {
      return State.FAULTED;
    }
  }

  /** After a restart of the agent, the journal has the names of suspended jobs. */
  private Map<String, List<Long>> suspended() {
    Map<String, List<Long>> jobs = new TreeMap<>();
    for (SuspendedProcess each : machine.suspended()) {
      String label = each.label();
      if (label != null && NAME.matcher(label).matches()) {
        List<Long> roots = jobs.computeIfAbsent(label, one -> new ArrayList<>());
        long root = each.root().pid();
        if (!roots.contains(root)) {
          roots.add(root);
        }
      }
    }
    return jobs;
  }

  /** Returns the roots of the CUDA processes of each pod, by the name of the job. */
  private Map<String, List<Long>> inPods() {
    Map<Container, Set<Long>> containers = new HashMap<>();
    for (ListedProcess each : machine.processes()) {
      if (each.state() != null || each.suspended() != null || !each.gpuBytes().isEmpty()) {
        groups
            .container(each.pid())
            .ifPresent(
                container ->
                    containers
                        .computeIfAbsent(container, one -> new HashSet<>())
                        .add((long) each.pid()));
      }
    }
    Map<String, List<Long>> jobs = new TreeMap<>();
    containers.forEach(
        (container, pids) -> {
          String job = podJob(pids.iterator().next(), container);
          jobs.computeIfAbsent(job, one -> new ArrayList<>()).addAll(rootsIn(container, pids));
        });
    return jobs;
  }

  private String podJob(long pid, Container container) {
    return groups
        .variable(pid, VARIABLE)
        .filter(value -> NAME.matcher(value).matches())
        .orElse(container.pod());
  }

  /** One tree if they have a common ancestor in the container, as ranks of a launcher have. */
  private List<Long> rootsIn(Container container, Set<Long> pids) {
    if (pids.size() > 1) {
      Optional<ProcessHandle> at = ProcessHandle.of(pids.iterator().next());
      while (at.isPresent() && groups.container(at.get().pid()).equals(Optional.of(container))) {
        long candidate = at.get().pid();
        if (pids.stream()
            .allMatch(pid -> pid == candidate || hasAncestor(pid, Set.of(candidate)))) {
          return List.of(candidate);
        }
        at = at.get().parent();
      }
    }
    return pids.stream().filter(pid -> !hasAncestor(pid, pids)).sorted().toList();
  }

  private static boolean hasAncestor(long pid, Set<Long> among) {
    Optional<ProcessHandle> parent = ProcessHandle.of(pid).flatMap(ProcessHandle::parent);
    while (parent.isPresent()) {
      if (among.contains(parent.get().pid())) {
        return true;
      }
      parent = parent.get().parent();
    }
    return false;
  }
}
