package dev.gpuprocess.internal.lock;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import java.util.Optional;

/**
 * Why a process cannot be locked now.
 *
 * @param description who works on it, to be followed by {@code on process PID}
 * @param holder the same as data, as far as it is known
 */
record LockConflict(String description, Optional<LockHolder> holder) {

  OperationInProgressException inProgress(String verb, int pid) {
    String message =
        "%s on process %s; %s has to wait until it ends".formatted(description, pid, verb);
    Failure failure = Failure.of(verb, pid);
    return holder
        .map(known -> known.inProgress(message, failure))
        .orElseGet(() -> new OperationInProgressException(message, failure));
  }
}
