package dev.gpuprocess.internal.wire;

import java.io.IOException;

/** The other host has ended the migration, and said why. */
public final class RefusedException extends IOException {

  private static final long serialVersionUID = 1L;

  RefusedException(String why) {
    super(why);
  }
}
