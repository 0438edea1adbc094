package dev.gpuprocess.internal.target;

import java.io.IOException;

/** The memory of a process was not read in time, as if a page of it never arrives. */
public final class HeldReadingException extends IOException {

  private static final long serialVersionUID = 1L;

  HeldReadingException(int pid) {
    super(
        "the memory of process %s cannot be read, because a page of it does not arrive (a file system in user space, userfaultfd): find out what it waits for, or end the process"
            .formatted(pid));
  }
}
