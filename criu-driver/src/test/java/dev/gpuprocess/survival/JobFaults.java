package dev.gpuprocess.survival;

import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.survival.JobFaultRunner.Result;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/** Every error of every driver call on every member of a job. */
final class JobFaults {

  private static final int MACHINES = 2;

  private JobFaults() {}

  /**
   * The whole test, without Maven.
   *
   * @param args the most cases to play
   * @throws Exception when it cannot be done
   */
  public static void main(String[] args) throws Exception {
    List<JobFaultCase> cases = JobFaultCase.all();
    Path directory = Files.createTempDirectory("gpuprocess-job-faults");
    List<Result> results;
    try {
      results =
          play(directory, cases.subList(0, Math.min(cases.size(), Integer.parseInt(args[0]))));
    } finally {
      FileTree.remove(directory);
    }
    for (Result result : results) {
      System.out.println((result.isGood() ? "good  " : "BAD   ") + result);
    }
    System.out.println(figure(results));
    System.exit(results.stream().allMatch(Result::isGood) ? 0 : 1);
  }

  static String figure(List<Result> results) {
    long lost = results.stream().filter(result -> !result.isGood()).count();
    return "job faults: %d cases, %d lost".formatted(results.size(), lost);
  }

  /** Every n-th case; another share has other cases. */
  static List<JobFaultCase> share(int share, int stride) {
    List<JobFaultCase> all = JobFaultCase.all();
    return IntStream.range(0, all.size())
        .filter(i -> i % stride == Math.floorMod(share, stride))
        .mapToObj(all::get)
        .toList();
  }

  static List<Result> play(Path directory, List<JobFaultCase> cases)
      throws InterruptedException, ExecutionException {
    ExecutorService threads = Executors.newFixedThreadPool(MACHINES);
    try {
      List<Callable<List<Result>>> work = new ArrayList<>();
      for (int i = 0; i < MACHINES; i++) {
        int machine = i;
        work.add(() -> playOn(directory.resolve("machine" + machine), machine, cases));
      }
      List<Result> results = new ArrayList<>();
      for (Future<List<Result>> done : threads.invokeAll(work)) {
        results.addAll(done.get());
      }
      return results;
    } finally {
      threads.shutdownNow();
    }
  }

  private static List<Result> playOn(Path directory, int machine, List<JobFaultCase> cases) {
    try (JobFaultRunner runner =
        new JobFaultRunner(new SimulatedMachine(directory, JobSubject.GPUS))) {
      return IntStream.range(0, cases.size())
          .filter(i -> i % MACHINES == machine)
          .mapToObj(i -> runner.play(cases.get(i)))
          .toList();
    }
  }
}
