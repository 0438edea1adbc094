package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Cancellation;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * What a call of the command line returned and printed.
 *
 * @param code the exit code
 * @param out standard output
 * @param err standard error
 */
record Call(int code, String out, String err) {

  /** Runs a command in this JVM. */
  static Call of(GpuCheckpoints machine, Object... args) {
    return of(machine, new Cancellation(), args);
  }

  static Call of(GpuCheckpoints machine, Cancellation cancellation, Object... args) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    int code =
        new CommandLineTool(() -> machine, cancellation, stream(out), stream(err)).run(words(args));
    return new Call(
        code, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
  }

  /** Runs a line of words without blanks in them; the first may be the name of another program. */
  static Call line(GpuCheckpoints machine, String line) {
    List<Object> words = new ArrayList<>(List.of(line.split(" ")));
    return CompatibleForms.NAMES.contains(words.get(0))
        ? as((String) words.remove(0), machine, words.toArray())
        : of(machine, words.toArray());
  }

  /** Runs a call of a program that is imitated. */
  static Call as(String name, GpuCheckpoints machine, Object... args) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    int code = new CompatibleForms(machine.cuda(), stream(out), stream(err)).run(name, words(args));
    return new Call(
        code, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
  }

  /** Returns the value beside a heading that was printed. */
  String detail(String heading) {
    return out.lines()
        .filter(line -> line.matches(heading + "  +.*"))
        .map(line -> line.substring(heading.length()).strip())
        .findFirst()
        .orElseThrow(() -> new AssertionError("no " + heading + " in " + this));
  }

  /**
   * Returns the command that runs the program in a JVM of its own.
   *
   * @param options more options of the JVM
   */
  static List<String> program(
      SimulatedDriver driver, GpuCheckpoints machine, List<String> options, Object... args) {
    List<String> all = new ArrayList<>(properties(driver, machine));
    all.addAll(options);
    return TestJvm.command(all, Main.class, words(args).toArray(String[]::new));
  }

  /** Returns the options of a JVM that uses a simulated driver and the journal of a machine. */
  static List<String> properties(SimulatedDriver driver, GpuCheckpoints machine) {
    return List.of(
        "-Dgpuprocess.driver.dir=" + driver.directory(),
        "-Dgpuprocess.state.dir=" + machine.stateDirectory());
  }

  static List<String> words(Object... args) {
    return Stream.of(args).map(Object::toString).toList();
  }

  private static PrintStream stream(ByteArrayOutputStream bytes) {
    return new PrintStream(bytes, true, StandardCharsets.UTF_8);
  }
}
