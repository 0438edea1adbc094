package dev.gpuprocess.slot;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotProcess.Place;
import dev.gpuprocess.slot.SlotRecord.Entry;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Continues with the queue that the last controller of a slot left. That may have died at any
 * moment, and the processes may have ended or been moved since. For one thread.
 */
final class SlotOpening {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final GpuCheckpoints checkpoints;
  private final SlotMoves moves;
  private final SlotRecord.Content content;
  private final Journal journal;
  private final List<Path> obsolete;
  private final Map<QueuedProcess, Path> fallbacks = new HashMap<>();
  private final List<ProcessIdentity> ended = new ArrayList<>();

  /** The images of processes whose state is not known: CRIU may still end such a process. */
  private final Set<Path> kept = new HashSet<>();

  SlotOpening(GpuCheckpoints checkpoints, SlotRecord.Content content) {
    this.checkpoints = checkpoints;
    this.moves = new SlotMoves(checkpoints);
    this.content = content;
    this.journal = new Journal(new StateDirectory(checkpoints.stateDirectory()));
    this.obsolete = new ArrayList<>(content.obsolete());
  }

  /** Returns the images that no process needs any more. */
  List<Path> obsolete() {
    return obsolete;
  }

  /** Returns the images of suspended processes that have not run since. */
  Map<QueuedProcess, Path> fallbacks() {
    return fallbacks;
  }

  /** Returns the processes that have ended. */
  List<ProcessIdentity> ended() {
    return ended;
  }

  /** Mends what was not finished, and enters the processes that exist, or are on disk. */
  void fill(SlotQueue queue) {
    Map<Path, ProcessIdentity> restored = restoring();
    List<Recovered> recovered = checkpoints.recover();
    LOG.debug("recovered {} before the slot opens", recovered);
    for (Entry entry : content.processes()) {
      Optional<QueuedProcess> found = find(entry, restored);
      if (found.isEmpty()) {
        ended.add(new ProcessIdentity(entry.pid(), entry.key().startTicks()));
        continue;
      }
      QueuedProcess process = found.get();
      process.setUsage(entry.gpus(), entry.bytes());
      if (entry.wanted()) {
        process.request(entry.priority(), queue.ticket(), System.nanoTime());
      }
      queue.add(process);
    }
  }

  /** Returns the processes of restores that were under way, by their images. */
  private Map<Path, ProcessIdentity> restoring() {
    Map<Path, ProcessIdentity> restored = new HashMap<>();
    if (content.processes().stream().anyMatch(each -> each.image() != null)) {
      for (JournalEntry entry : journal.entries()) {
        Path image = entry.image();
        if (entry.isImageRestore() && image != null) {
          entry.find().process().ifPresent(process -> restored.put(image, process));
        }
      }
    }
    return restored;
  }

  private Optional<QueuedProcess> find(Entry entry, Map<Path, ProcessIdentity> restored) {
    Path image = entry.image();
    Optional<QueuedProcess> live = live(entry, itself(entry));
    if (live.isEmpty() && image != null) {
      live = live(entry, restored(image).or(() -> Optional.ofNullable(restored.get(image))));
    }
    if (live.isPresent()) {
      if (image != null && !kept.contains(image)) {
        // The process has all that the image has, or more.
        if (live.get().isOnGpu()) {
          obsolete.add(image);
        } else {
          fallbacks.put(live.get(), image);
        }
      }
      return live;
    }
    // A disk that is not mounted now may hold the image of a process that was sent to disk.
    return image != null && (entry.isOnDisk() || moves.mayHold(image))
        ? Optional.of(onDisk(entry, image))
        : live;
  }

  private static Optional<ProcessIdentity> itself(Entry entry) {
    return entry.isOfThisBoot()
        ? entry
            .key()
            .find()
            .process()
            .or(() -> Optional.of(new ProcessIdentity(entry.pid(), entry.key().startTicks())))
        : Optional.empty();
  }

  /** Finds a process that was restored from the image and has not run since. */
  private Optional<ProcessIdentity> restored(Path image) {
    return journal.entriesOfProcesses().stream()
        .filter(each -> image.equals(each.history().fallback()))
        .flatMap(each -> each.root().find().process().stream())
        .findFirst();
  }

  private Optional<QueuedProcess> live(Entry entry, Optional<ProcessIdentity> process) {
    return process.flatMap(found -> live(entry, found));
  }

  private Optional<QueuedProcess> live(Entry entry, ProcessIdentity process) {
    Path image = entry.image();
    try {
      return Optional.of(queued(entry, process, place(process, image != null), null));
    } catch (NoSuchProcessException | NotCudaProcessException gone) {
      LOG.debug("process {} is not there", process, gone);
      return Optional.empty();
    } catch (GpuCheckpointException unknown) {
      // The next move reads its state again.
      LOG.warn("the state of process {} is not known: {}", process.pid(), unknown.getMessage());
      Optional.ofNullable(image).ifPresent(kept::add);
      return process.isAlive()
          ? Optional.of(queued(entry, process, Place.HOST_MEMORY, image))
          : Optional.empty();
    }
  }

  /**
   * Reads where a process is. A process with an image may be one that CRIU, started by a controller
   * that has died, is about to end, or has just let go: its state is read again until it is known.
   */
  private Place place(ProcessIdentity process, boolean hasImage) {
    Duration limit = hasImage ? checkpoints.timeouts().call() : Duration.ZERO;
    try (Polling polling = new Polling(limit)) {
      while (true) {
        try {
          return SlotMoves.place(moves.look(process));
        } catch (NoSuchProcessException | NotCudaProcessException gone) {
          throw gone;
        } catch (GpuCheckpointException unknown) {
          if (!polling.pause()) {
            throw unknown;
          }
        }
      }
    }
  }

  private static QueuedProcess onDisk(Entry entry, Path image) {
    ProcessIdentity dumped = new ProcessIdentity(entry.pid(), entry.key().startTicks());
    return queued(entry, dumped, Place.DISK, image);
  }

  private static QueuedProcess queued(
      Entry entry, ProcessIdentity process, Place place, @Nullable Path image) {
    ProcessKey key = place == Place.DISK ? entry.key() : ProcessKey.of(process);
    QueuedProcess queued = new QueuedProcess(process, key, place, entry.used());
    queued.setImage(image);
    return queued;
  }
}
