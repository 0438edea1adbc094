package dev.gpuprocess.examples.bus;

/** A measurement of both sides: a row of the table and a part of the last line. */
enum Figure {
  SUSPEND("suspend", "suspend %.1fx"),
  COLD_SUSPEND("suspend, cold pool", "cold pool %.1fx"),
  RESUME("resume", "resume %.1fx"),
  PAUSE("snapshot pause", "snapshot pause %.2f"),
  DUMP("dump to tmpfs", "dump to tmpfs %.1fx"),
  RESTORE("restore from tmpfs", "restore from tmpfs %.1fx"),
  TO_DISK("to disk (raw: direct I/O)", "to disk %.2f of direct"),
  FROM_DISK("read from disk (raw: direct I/O)", "from disk %.2f of direct");

  private final String row;
  private final String part;

  Figure(String row, String part) {
    this.row = row;
    this.part = part;
  }

  /** Returns the name of the row. */
  String row() {
    return row;
  }

  /** Returns the format of the part of the last line. */
  String part() {
    return part;
  }

  /** Returns the number in that part: for the pause a fraction of the raw one, else a speedup. */
  double number(double raw, double library) {
    return this == PAUSE ? library / raw : raw / library;
  }
}
