package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.engine.JobOperation;
import dev.gpuprocess.internal.engine.Member;
import dev.gpuprocess.internal.engine.TrackedJob;
import dev.gpuprocess.internal.handover.CopyLimit;
import dev.gpuprocess.internal.handover.MemoryHandOver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.store.StagedImage;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The hand-over of all members of a job, one after the other, each to a file of its own. */
final class HandOverSteps {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final JobOperation operation;
  private final @Nullable Path spools;
  private final List<HandOverStep> all = new ArrayList<>();

  /**
   * Prepares; nothing is done yet.
   *
   * @param spools where the memory goes first; null for the image at once
   */
  HandOverSteps(JobOperation operation, DumpOptions options, @Nullable Path spools) {
    this.operation = operation;
    this.spools = spools;
    for (Member each : operation.members()) {
      all.add(new HandOverStep(each, all.size() + 1, options));
    }
  }

  /** Does it where it can be done; see {@link HandOverStep#run}. */
  void run(CriuDriver criu, StagedImage image, BoundedDiskTask disk, Supplier<Duration> left) {
    takeBackOfChildren(left);
    Map<Integer, Long> bytes = new HashMap<>();
    for (HandOverStep each : all) {
      long found = each.look();
      if (found > 0) {
        bytes.put(each.pid(), found);
      }
    }
    SpoolChoice choice = SpoolChoice.of(spools, image, disk, bytes);
    all.forEach(each -> each.run(criu, image, disk, left.get(), choice));
  }

  /** A child that was forked while its parent was suspended has a copy of the mapping. */
  private void takeBackOfChildren(Supplier<Duration> left) {
    int root = operation.job().root.pid();
    Set<Integer> members = all.stream().map(HandOverStep::pid).collect(Collectors.toSet());
    for (int pid : members.isEmpty() ? List.<Integer>of() : ProcFs.tree(root)) {
      try {
        Optional<ProcessIdentity> process = ProcessIdentity.of(pid);
        if (!members.contains(pid) && process.isPresent()) {
          MemoryHandOver.takeBack(process.get(), left.get());
        }
      } catch (ProcessUnreadableException e) {
        LOG.info("process {}: CRIU dumps all of its memory: {}", pid, e.getMessage());
      } catch (IOException e) {
        throw HandOverStep.mapped(root, pid, e.getMessage());
      }
    }
  }

  /** CRIU has written its files: nobody needs the name of a spool any more. */
  void hideSpool() {
    all.forEach(HandOverStep::hideSpool);
  }

  /** Copies into the image what is in a spool yet; see {@link HandOverStep#write}. */
  void write(
      StagedImage image, BoundedDiskTask disk, CopyLimit limit, Consumer<@Nullable Boolean> undo) {
    all.forEach(each -> each.write(image, disk, limit, undo));
  }

  /** Lets spools go. */
  void close() {
    all.forEach(HandOverStep::close);
  }

  /** What was handed over, for the manifest; null for nothing. */
  @Nullable List<MemoryFile> memory() {
    List<MemoryFile> files = all.stream().flatMap(each -> each.memory().stream()).toList();
    return files.isEmpty() ? null : files;
  }

  /** Checks that CRIU saw the files under the names that the manifest has. */
  void requireRecorded(Path images) {
    all.forEach(each -> each.requireRecorded(images));
  }

  /** Gives the processes memory of their own again, after a failure. */
  void putBackAfter(BoundedDiskTask disk) {
    all.forEach(each -> each.putBackAfter(disk));
  }

  /** Gives the processes, which live on, memory of their own again. */
  void putBack() {
    boolean wasHandedOver = memory() != null;
    all.forEach(HandOverStep::putBack);
    if (wasHandedOver) {
      takeBackInTree();
    }
  }

  /** Gives processes that were resumed memory of their own, as far as they have none. */
  void takeBack() {
    if (memory() != null) {
      takeBackInTree();
    }
  }

  /** Children that were forked meanwhile have all that was mapped in their parents. */
  private void takeBackInTree() {
    TrackedJob job = operation.job();
    try {
      MemoryHandOver.takeBackInTree(job.root, job.context.timeouts().transfer());
    } catch (IOException | RuntimeException e) {
      LOG.warn(
          "a process of the tree of process {} keeps memory in a file of an image or spool, which takes room until it ends or the tree is dumped again: {}",
          job.root.pid(),
          e.getMessage());
    }
  }
}
