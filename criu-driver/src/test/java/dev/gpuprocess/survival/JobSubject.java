package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * The tree that everything is done to: a launcher, three members on two GPUs, and loaders. All of
 * its messages and all that it adds on GPUs is accounted for.
 */
final class JobSubject implements AutoCloseable {

  static final int MEMBERS = 3;
  static final int GPUS = 2;
  static final int LOADERS = 4;

  /** The members of a small one. */
  static final int PAIR = 2;

  private static final Duration PATIENCE = Duration.ofMinutes(1);

  private final Job job;
  private final List<Integer> members;
  private final int loaders;

  private JobSubject(Job job, int members, int loaders) {
    this.job = job;
    this.members = IntStream.range(0, members).mapToObj(job::member).toList();
    this.loaders = loaders;
  }

  static JobSubject start(SimulatedDriver machine) {
    return new JobSubject(
        Job.launch(MEMBERS, GPUS, LOADERS).on(machine).notOurChild().start(), MEMBERS, LOADERS);
  }

  /** A small tree on one GPU: two members with this much memory, and one loader. */
  static JobSubject startPair(SimulatedDriver machine, int mebibytes) {
    return new JobSubject(
        Job.launch(PAIR, 1, 1, mebibytes).on(machine).notOurChild().start(), PAIR, 1);
  }

  int pid() {
    return Math.toIntExact(job.pid());
  }

  int member(int number) {
    return members.get(number);
  }

  boolean isAlive() {
    return job.isAlive();
  }

  /** Its members that live. */
  List<ProcessIdentity> living() {
    return members.stream()
        .flatMap(pid -> ProcessIdentity.of(pid).stream())
        .filter(ProcessIdentity::isAlive)
        .toList();
  }

  /**
   * Whether it goes on with all its members and messages; empty when it does, else what is wrong.
   */
  Optional<String> fault() {
    return fault(true);
  }

  /**
   * Whether it goes on.
   *
   * @param whole whether all members and loaders have to be there
   */
  Optional<String> fault(boolean whole) {
    try {
      Job.Work before = job.work();
      boolean goesOn =
          Waiting.until(
              PATIENCE,
              () -> {
                Job.Work now = job.work();
                return now.added() > before.added() + members.size()
                    && (!whole || now.messages() > before.messages() + loaders);
              });
      if (!goesOn) {
        return Optional.of("it does not go on from " + before + ": " + job.work());
      }
      List<String> bad = new ArrayList<>();
      for (int i = 0; i < members.size(); i++) {
        boolean lives = ProcessIdentity.of(member(i)).filter(ProcessIdentity::isAlive).isPresent();
        if (lives && !job.verify(i).startsWith("ok ")) {
          bad.add("member " + i + ": " + job.verify(i));
        }
        if (whole && !lives) {
          bad.add("member " + i + " is gone");
        }
      }
      return bad.isEmpty() ? Optional.empty() : Optional.of(bad.toString());
    } catch (UncheckedIOException | IllegalStateException e) {
      return Optional.of("it does not answer: " + e.getMessage());
    }
  }

  @Override
  public void close() {
    List<ProcessHandle> all =
        new ArrayList<>(
            ProcessHandle.of(job.pid())
                .filter(handle -> job.isAlive())
                .map(handle -> handle.descendants().toList())
                .orElse(List.of()));
    job.close();
    // They die with the launcher; the handles know their start times.
    all.forEach(ProcessHandle::destroyForcibly);
    if (!Waiting.until(PATIENCE, () -> all.stream().noneMatch(ProcessHandle::isAlive))) {
      throw new IllegalStateException("the tree of " + job.pid() + " does not die");
    }
  }
}
