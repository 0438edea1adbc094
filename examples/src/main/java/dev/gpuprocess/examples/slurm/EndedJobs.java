package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The images of jobs that have ended: their command's end is recorded, or Slurm does not know them
 * any more. Only directories of this user are touched.
 */
public final class EndedJobs {

  /**
   * {@code lab-17}, {@code lab-17_2-step0-rank1}, {@code lab-17.own-89abcdef01234567}, {@code
   * lab-17.stale-1764356400000}.
   */
  private static final Pattern NAME =
      Pattern.compile(
          "(.+?)-(\\d+(?:_\\d+)?)(?:-step\\d+-rank\\d+)?(?:\\.own-[0-9a-f]{16})?(\\.stale-\\d+)?");

  private final GpuCheckpoints machine;
  private final Scontrol scontrol;
  private final Path images;
  private final Duration age;
  private final Consumer<String> log;

  /**
   * What became of the images of a job.
   *
   * @param directory of the job
   * @param removed how many images were removed
   * @param reason why they were removed, or why they stay
   */
  public record Outcome(Path directory, int removed, String reason) {}

  /**
   * Prepares the removal.
   *
   * @param images the directory of all jobs
   * @param age how old the last change of a job's images must be if its end is not recorded
   * @param log receives a sentence about each image that stays although its job has ended
   */
  public EndedJobs(
      GpuCheckpoints machine, Scontrol scontrol, Path images, Duration age, Consumer<String> log) {
    this.machine = machine;
    this.scontrol = scontrol;
    this.images = images;
    this.age = age;
    this.log = log;
  }

  /**
   * Removes the images.
   *
   * @return one outcome for each directory of a job
   * @throws ImageException if the directory of all jobs cannot be read
   */
  public List<Outcome> removeImages() {
    String cluster = SlurmJob.cluster(scontrol.config().getOrDefault("ClusterName", ""));
    List<Outcome> outcomes = new ArrayList<>();
    for (Path each : directories()) {
      Matcher name = NAME.matcher(String.valueOf(each.getFileName()));
      if (name.matches()) {
        outcomes.add(outcome(each, name, cluster));
      }
    }
    return outcomes;
  }

  private List<Path> directories() {
    try (Stream<Path> entries = Files.list(images)) {
      return entries
          .filter(each -> Files.isDirectory(each, LinkOption.NOFOLLOW_LINKS))
          .sorted()
          .toList();
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "the jobs in %s cannot be listed: %s".formatted(images, e),
          Failure.of("prune", 0),
          e);
    }
  }

  private Outcome outcome(Path path, Matcher name, String cluster) {
    try {
      JobDirectory directory = JobDirectory.existing(path);
      boolean isStale = name.group(3) != null;
      boolean isUnknown =
          isStale || (name.group(1).equals(cluster) && scontrol.isUnknown(name.group(2)));
      boolean isFinished = directory.finished().isPresent();
      if (!isFinished && !isUnknown) {
        return new Outcome(path, 0, "kept: Slurm may still requeue the job");
      }
      if (!isFinished && directory.lastChange().isAfter(Instant.now().minus(age))) {
        return new Outcome(
            path, 0, "kept: the end of its command is not recorded, and it is young");
      }
      int removed = JobImages.remove(machine.store(directory.images()), log);
      if (isUnknown) {
        directory.remove();
      }
      return new Outcome(
          path, removed, isFinished ? "its command has ended" : "Slurm does not know the job");
    } catch (GpuCheckpointException e) {
      return new Outcome(path, 0, "kept: " + e.getMessage());
    }
  }
}
