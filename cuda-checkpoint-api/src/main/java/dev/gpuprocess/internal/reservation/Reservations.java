package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The GPU memory that restores have reserved, over all JVMs with the same state directory. Each
 * reservation is a lock with a note. The lock shows in every pid namespace whether its holder
 * lives. Checking and reserving is exclusive; restores run in parallel.
 *
 * <p>If the state directory cannot be used, restores continue, and only reservations of this JVM
 * count. Safe for use by several threads.
 */
public final class Reservations {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String VERB = "restore";
  private static final String GATE = "gpu-room";
  private static final String PREFIX = "room-";

  /** Reservations of this JVM that are not in the state directory. */
  private static final Set<ReservedMemory> HERE = ConcurrentHashMap.newKeySet();

  private final StateDirectory directory;
  private final Duration longestRestore;
  private final Predicate<ProcessIdentity> restoreIsOver;

  /**
   * Opens the reservations of a state directory.
   *
   * @param longestRestore the most time of a restore whose controller died and whose process is in
   *     another pid namespace
   * @param restoreIsOver returns whether a restore whose controller died has ended; the driver
   *     completes it without the controller
   */
  public Reservations(
      StateDirectory state, Duration longestRestore, Predicate<ProcessIdentity> restoreIsOver) {
    this.directory = state;
    this.longestRestore = longestRestore;
    this.restoreIsOver = restoreIsOver;
  }

  /** Returns the current reservations. Changes nothing. */
  public List<ReservedMemory> look() {
    try {
      return claims(this::read);
    } catch (IOException e) {
      return knownHere(e);
    }
  }

  private List<ReservedMemory> knownHere(IOException why) {
    LOG.warn("reservations in {} cannot be read: {}", directory.path(), why.toString());
    return List.copyOf(HERE);
  }

  /**
   * Runs a function with the current reservations, while no other controller can reserve.
   *
   * @param pid of the process to restore, for messages
   * @param patience how long to wait for other controllers
   * @throws OperationInProgressException if another controller does not end
   * @throws dev.gpuprocess.internal.state.StateDirectoryException if no descriptor is free, so that
   *     reservations of other controllers cannot be read
   */
  public <T> T alone(int pid, Duration patience, Function<List<ReservedMemory>, T> body) {
    Optional<NamedLock> gate;
    try {
      gate = directory.lock(GATE, VERB, patience);
    } catch (IOException e) {
      requireDescriptors(e, pid);
      LOG.warn("GPU memory for process {} is reserved in this JVM only: {}", pid, e.toString());
      synchronized (HERE) {
        return body.apply(List.copyOf(HERE));
      }
    }
    if (gate.isEmpty()) {
      // Without a pid, because no verb works on the process: its restore is to be tried again.
      throw new OperationInProgressException(
          "%s is checking the memory of the GPUs and does not end, so process %s must wait: find out what stopped it"
              .formatted(directory.describeHolder(GATE), pid),
          Failure.of(VERB, 0));
    }
    try {
      return body.apply(claimsAlone(pid));
    } finally {
      gate.get().closeAndForget();
    }
  }

  private List<ReservedMemory> claimsAlone(int pid) {
    try {
      return claims(name -> readOrForget(name, pid));
    } catch (IOException e) {
      requireDescriptors(e, pid);
      return knownHere(e);
    }
  }

  private List<ReservedMemory> claims(Function<String, Optional<ReservedMemory>> reader)
      throws IOException {
    List<ReservedMemory> claims = new ArrayList<>(HERE);
    directory.lockNames().stream()
        .filter(name -> name.startsWith(PREFIX))
        .forEach(name -> reader.apply(name).ifPresent(claims::add));
    return claims;
  }

  private Optional<ReservedMemory> read(String name) {
    try {
      return directory.holder(name).isPresent() ? parsed(name) : Optional.empty();
    } catch (IOException e) {
      LOG.warn("reservation {} cannot be read: {}", name, e.toString());
      return Optional.empty();
    }
  }

  /** The reservation of a dead holder is valid until the end of its restore. */
  private Optional<ReservedMemory> readOrForget(String name, int pid) {
    try {
      Optional<NamedLock> dead = directory.tryLock(name, VERB);
      return dead.isPresent() ? leftBy(dead.get(), name) : parsed(name);
    } catch (IOException e) {
      requireDescriptors(e, pid);
      LOG.warn("reservation {} cannot be read: {}", name, e.toString());
      return Optional.empty();
    }
  }

  private Optional<ReservedMemory> leftBy(NamedLock dead, String name) {
    Optional<ReservedMemory> claim = parsed(name, dead.note());
    if (claim.filter(this::isUnderWay).isPresent()) {
      dead.close();
      return claim;
    }
    dead.closeAndForget();
    return Optional.empty();
  }

  private boolean isUnderWay(ReservedMemory claim) {
    ProcessSearch search = claim.process().find();
    return !search.isGone()
        && search
            .process()
            .map(found -> !restoreIsOver.test(found))
            .orElseGet(() -> claim.isYoungerThan(longestRestore));
  }

  private Optional<ReservedMemory> parsed(String name) throws IOException {
    return parsed(name, directory.note(name));
  }

  private static Optional<ReservedMemory> parsed(String name, String note) {
    try {
      return note.isEmpty() ? Optional.empty() : Optional.of(ReservedMemory.parse(note));
    } catch (IllegalArgumentException e) {
      LOG.warn("{} is not a reservation: {}", name, e.toString());
      return Optional.empty();
    }
  }

  /** Adds a reservation; within {@link #alone}. */
  Reservation add(ReservedMemory claim) {
    try {
      String name = PREFIX + UUID.randomUUID();
      NamedLock held =
          directory
              .tryLock(name, VERB)
              .orElseThrow(() -> new IOException(name + " is locked already"));
      try {
        held.note(claim.text());
        return held::closeAndForget;
      } catch (IOException | RuntimeException e) {
        held.closeAndForget();
        throw e;
      }
    } catch (IOException | IllegalArgumentException e) {
      requireDescriptors(e, claim.process().pid());
      LOG.warn("{} is known in this JVM only: {}", claim, e.toString());
      HERE.add(claim);
      return () -> HERE.remove(claim);
    }
  }

  /**
   * Throws if no descriptor is free: other controllers can use the directory, so their reservations
   * must not be ignored.
   */
  private void requireDescriptors(Exception e, long pid) {
    if (e instanceof IOException io && Descriptors.areUsedUp(io)) {
      throw directory.unusable(io, VERB, pid);
    }
  }
}
