package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * {@code Zdtm CRIU TEST [--all-flavors] [NAME...]}: starts each compiled test program in a copy of
 * CRIU's {@code test} directory, dumps and restores it, and lets it check itself; once with the
 * bare {@code criu} command, once through this library. A program that fails both ways counts as
 * CRIU's. The exit code is 0 if no program fails only through the library.
 *
 * <p>The programs send signals, mount, and leave processes: run this in namespaces of its own, as
 * {@code bin/criu-zdtm} does.
 */
public final class Zdtm {

  private static final String ALL_FLAVORS = "--all-flavors";

  private final PrintStream out;
  private final Stage stage;
  private final boolean allFlavors;
  private final BareCommand bare;
  private final Way ours = new ThroughDriver(new RpcCriuDriver());
  private final Requirements requirements;
  private int passed;
  private int passedOnlyHere;
  private int failed;
  private int failedThereToo;
  private int left;

  private Zdtm(PrintStream out, String criu, Stage stage, boolean allFlavors) {
    this.out = out;
    this.stage = stage;
    this.allFlavors = allFlavors;
    this.bare = new BareCommand(criu);
    this.requirements = new Requirements(stage, bare);
  }

  /**
   * Tries the programs and exits.
   *
   * @param args the CRIU command, the directory, and the names of programs, or none for all
   * @throws IOException if files cannot be read or written
   * @throws FailedException if the programs cannot be listed
   */
  public static void main(String[] args) throws IOException, FailedException {
    if (args.length < 2 || !Files.isDirectory(Path.of(args[1]))) {
      System.err.println("usage: Zdtm CRIU TEST [--all-flavors] [NAME...]");
      System.exit(2);
    }
    List<String> names = new ArrayList<>(List.of(args).subList(2, args.length));
    boolean allFlavors = names.remove(ALL_FLAVORS);
    Stage stage = new Stage(Path.of(args[1]).toRealPath());
    Zdtm zdtm = new Zdtm(System.out, args[0], stage, allFlavors);
    for (Program program : Programs.of(stage, names)) {
      zdtm.run(program);
    }
    System.exit(zdtm.conclude());
  }

  private int conclude() {
    out.printf(
        "%ncriu zdtm: %s of %s; %s more fail with the bare command too, %s are not for here%n",
        passed + passedOnlyHere, passed + passedOnlyHere + failed, failedThereToo, left);
    return failed == 0 && passed > 0 ? 0 : 1;
  }

  private void run(Program program) throws IOException {
    List<Flavor> flavors = Flavor.of(program);
    for (Flavor flavor : allFlavors ? flavors : flavors.subList(0, 1)) {
      try {
        requirements.check(program);
        compare(program, flavor);
      } catch (NotHereException e) {
        left++;
        print(program, flavor, "not here", String.valueOf(e.getMessage()));
      } catch (UncheckedIOException e) {
        left++;
        print(program, flavor, "not here", "cannot be tried: " + e.getMessage());
      }
    }
  }

  private void compare(Program program, Flavor flavor) throws IOException, NotHereException {
    Optional<String> with = failure(program, flavor, bare);
    Optional<String> through = failure(program, flavor, ours);
    String first = "";
    if (with.isPresent() != through.isPresent()) {
      // Some programs fail now and then, also because of other users of this kernel.
      first = "at the second try; first: " + with.orElse("") + through.orElse("");
      with = with.isPresent() ? failure(program, flavor, bare) : with;
      through = through.isPresent() ? failure(program, flavor, ours) : through;
    }
    if (with.isEmpty() && through.isEmpty()) {
      passed++;
      print(program, flavor, "passed", first);
    } else if (through.isEmpty()) {
      passedOnlyHere++;
      print(program, flavor, "passed", "only through us; with criu: " + with.orElseThrow());
    } else if (with.isPresent()) {
      failedThereToo++;
      print(program, flavor, "CRIU's", with.get() + "; through us: " + through.get());
    } else {
      failed++;
      print(program, flavor, "FAILED", through.get());
    }
  }

  /** Tries a program once and returns the reason of a failure; empty on success. */
  private Optional<String> failure(Program program, Flavor flavor, Way way)
      throws IOException, NotHereException {
    try {
      new ProgramRun(stage, program, flavor, way).run();
      return Optional.empty();
    } catch (FailedException | UncheckedIOException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  private void print(Program program, Flavor flavor, String verdict, String why) {
    out.printf("%-32s%-4s%-10s%s%n", program.name(), flavor.word(), verdict, why);
  }
}
