package dev.gpuprocess.internal.text;

import java.util.Locale;

/** Sizes for messages. */
public final class Bytes {

  private static final long MIB = 1L << 20;
  private static final long GIB = 1L << 30;

  private Bytes() {}

  public static String text(long bytes) {
    return bytes >= GIB
        ? String.format(Locale.ROOT, "%.1f GiB", (double) bytes / GIB)
        : bytes / MIB + " MiB";
  }
}
