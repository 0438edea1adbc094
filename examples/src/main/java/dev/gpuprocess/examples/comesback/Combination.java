package dev.gpuprocess.examples.comesback;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;

/**
 * A case: attributes of a process, and how it is dumped and restored. A seed gives always the same
 * case.
 *
 * @param seed of the case
 * @param attributes names of the attributes
 * @param dump how the image is made
 * @param way how the process is restored
 * @param permissive whether the dump permits locks, connections and unlinked files
 * @param closesTerminal whether the terminal is closed before the restore
 */
record Combination(
    long seed,
    List<String> attributes,
    Dump dump,
    Way way,
    boolean permissive,
    boolean closesTerminal) {

  private static final int MOST = 4;

  /** How the image is made. */
  enum Dump {
    DUMP,
    /** A snapshot, after which the process changes and is killed. */
    SNAPSHOT
  }

  /** How the process is restored. */
  enum Way {
    SAME_JVM,
    OTHER_JVM,
    COMMAND,
    COMMAND_IN_TERMINAL,
    LAUNCH
  }

  /**
   * Returns the case of a seed. An even seed gives one attribute alone; consecutive even seeds give
   * all of them in turn.
   */
  static Combination of(long seed, List<String> names) {
    Random random = new Random(seed * 0x5DEECE66DL + 11);
    random.nextInt();
    List<String> attributes =
        seed % 2 == 0
            ? List.of(names.get((int) Math.floorMod(seed / 2, (long) names.size())))
            : several(random, names);
    Way[] ways = Way.values();
    return new Combination(
        seed,
        attributes,
        random.nextInt(3) == 0 ? Dump.SNAPSHOT : Dump.DUMP,
        ways[random.nextInt(ways.length)],
        random.nextBoolean(),
        random.nextBoolean());
  }

  /** Attributes whose names begin with the same word exclude each other. */
  private static List<String> several(Random random, List<String> names) {
    int count = 2 + random.nextInt(MOST - 1);
    List<String> chosen = new ArrayList<>();
    Set<String> words = new HashSet<>();
    while (chosen.size() < count) {
      String name = names.get(random.nextInt(names.size()));
      if (words.add(word(name))) {
        chosen.add(name);
      }
    }
    return chosen;
  }

  private static String word(String name) {
    return switch (name) {
      case "session-member", "group-member" -> "terminal";
      // glibc ends a program in which a thread alone may not become another user
      case "user", "user-effective", "user-files", "securebits" -> "capabilities";
      default -> name.split("-")[0];
    };
  }

  @Override
  public String toString() {
    return "seed %s %s, %s%s, %s%s"
        .formatted(
            seed,
            attributes,
            dump,
            permissive ? " permissive" : "",
            way,
            closesTerminal ? " without the old terminal" : "");
  }
}
