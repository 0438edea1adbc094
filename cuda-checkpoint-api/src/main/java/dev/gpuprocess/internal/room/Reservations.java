package dev.gpuprocess.internal.room;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.process.ProcessSearch;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.process.ProcessIdentity;
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
 * The GPU memory that restores under way have reserved, across all JVMs with the same state
 * directory. Each reservation is a lock with a note: whether its holder lives is told by the lock,
 * in every pid namespace. Checking and reserving is exclusive; restores run in parallel.
 *
 * <p>If the state directory cannot be used, restores go on, and only those of this JVM know of each
 * other. Safe for use by several threads.
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
   * The reservations of a state directory.
   *
   * @param longestRestore how long a restore can take whose controller died and whose process
   *     cannot be seen from this pid namespace
   * @param restoreIsOver tells whether a restore whose controller died has ended; the driver
   *     completes it without the controller
   */
  public Reservations(
      StateDirectory state, Duration longestRestore, Predicate<ProcessIdentity> restoreIsOver) {
    this.directory = state;
    this.longestRestore = longestRestore;
    this.restoreIsOver = restoreIsOver;
  }

  /** What is reserved at this moment. Changes nothing. */
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
   * Runs something with the current reservations while nobody else can reserve.
   *
   * @param pid the process to restore, for messages
   * @param patience how long to wait for others
   * @throws OperationInProgressException when one of them does not end
   * @throws dev.gpuprocess.error.StateDirectoryException when descriptors have run out, so that
   *     reservations of others cannot be read
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
      throw new OperationInProgressException(
          "%s is checking the memory of the GPUs and does not end, so process %s has to wait: find out what stopped it"
              .formatted(directory.describeHolder(GATE), pid),
          Failure.of(VERB, pid));
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

  /** The reservation of a dead holder is valid until the restore that it was made for has ended. */
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

  /** Reserves; within {@link #alone}. */
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
   * Others can use the directory, so their reservations must not be ignored only because
   * descriptors have run out here.
   */
  private void requireDescriptors(Exception e, long pid) {
    if (e instanceof IOException io && Descriptors.areUsedUp(io)) {
      throw directory.unusable(io, VERB, pid);
    }
  }
}
