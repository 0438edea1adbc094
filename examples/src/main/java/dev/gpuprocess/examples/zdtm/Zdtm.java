package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * {@code Zdtm CRIU DIRECTORY [NAME...]}: starts each compiled test program of a directory, dumps
 * and restores it, and asks it whether it noticed. What fails is tried once more with the bare
 * {@code criu} command; what fails there too counts as CRIU's. The exit code is 0 if nothing is
 * ours.
 *
 * <p>The programs signal, mount and leave processes behind: run it in pid and mount namespaces of
 * its own, as {@code bin/criu-zdtm} does.
 */
public final class Zdtm {

  private final PrintStream out;
  private final BareCommand bare;
  private final Way ours = new ThroughDriver(new RpcCriuDriver());
  private int passed;
  private int failed;
  private int failedThereToo;
  private int left;

  private Zdtm(PrintStream out, String criu) {
    this.out = out;
    this.bare = new BareCommand(criu);
  }

  /**
   * Tries them all and ends the JVM.
   *
   * @param args the CRIU command, the directory, and names if not all of it is wanted
   * @throws IOException when files cannot be read or written
   */
  public static void main(String[] args) throws IOException {
    if (args.length < 2 || !Files.isDirectory(Path.of(args[1]))) {
      System.err.println("usage: Zdtm CRIU DIRECTORY [NAME...]");
      System.exit(2);
    }
    List<String> names = List.of(args).subList(2, args.length);
    Zdtm zdtm = new Zdtm(System.out, args[0]);
    for (Program program : Program.in(Path.of(args[1]), names)) {
      zdtm.run(program);
    }
    System.exit(zdtm.conclude());
  }

  private int conclude() {
    out.printf(
        "%ncriu zdtm: %s of %s; %s more fail with the bare command too, %s are not for here%n",
        passed, passed + failed, failedThereToo, left);
    return failed == 0 && passed > 0 ? 0 : 1;
  }

  private void run(Program program) throws IOException {
    try {
      tryBoth(program);
    } catch (NotHereException e) {
      left++;
      say(program, "not here", String.valueOf(e.getMessage()));
    }
  }

  private void tryBoth(Program program) throws IOException, NotHereException {
    program.requireHere();
    Optional<String> failure = failure(program, ours);
    if (failure.isEmpty()) {
      passed++;
      say(program, "passed", "");
      return;
    }
    Optional<String> without = failure(program, bare);
    if (without.isPresent()) {
      failedThereToo++;
      say(program, "CRIU's", without.get() + "; through us: " + failure.get());
    } else {
      failed++;
      say(program, "FAILED", failure.get());
    }
  }

  /** One trial, in a directory of its own; empty when it went well. */
  private Optional<String> failure(Program program, Way way) throws IOException, NotHereException {
    // Not deleted here: a program may have left a mount in it. The script does when all are gone.
    Path place = Files.createTempDirectory(program.name() + "-");
    try {
      for (String feature : program.words("feature")) {
        bare.require(feature);
      }
      try (Instance instance = Instance.start(program, place)) {
        Path images = Files.createDirectory(place.resolve("images"));
        Path work = Files.createDirectory(place.resolve("work"));
        way.dump(program, instance.identity(), images, work);
        way.restore(program, instance.pid(), images, work);
        instance.conclude();
      }
      return Optional.empty();
    } catch (FailedException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  private void say(Program program, String verdict, String why) {
    out.printf("%-32s%-10s%s%n", program.name(), verdict, why);
  }
}
