package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.examples.bus.ServingEngine;
import dev.gpuprocess.examples.bus.Size;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * A program that measures what becomes of page-locked memory: whether a process may read and write
 * it while it is suspended, whether the GPU reads the right data after a resume and after a dump
 * and restore, and whether the driver takes the memory back. It needs a JRE and CRIU.
 */
public final class GpuPageLocked {

  private static final Size SIZE = new Size(64);
  private static final List<String> KINDS =
      List.of(
          "allocated",
          "allocated-mapped",
          "allocated-portable-mapped",
          "allocated-combined",
          "registered",
          "registered-mapped",
          "registered-portable-mapped");

  private final Machine machine;
  private final PrintStream out;

  private GpuPageLocked(Machine machine, PrintStream out) {
    this.machine = machine;
    this.out = out;
  }

  /** What is done to a process. */
  private interface Deed {
    String run(ServingEngine engine, Path image) throws IOException;
  }

  /** Prints a table; takes no arguments. */
  public static void main(String[] args) throws IOException {
    try (Machine machine = Machine.real()) {
      GpuPageLocked program = new GpuPageLocked(machine, System.out);
      System.out.println(machine.headline("gpu-page-locked"));
      for (String kind : KINDS) {
        program.row(kind, "untouched", program::untouched);
        program.row(kind, "read while suspended", program::read);
        program.row(kind, "written while suspended", program::written);
      }
    }
  }

  private void row(String kind, String what, Deed deed) throws IOException {
    String result;
    try (Scratch scratch = Scratch.create()) {
      Path directory = Files.createDirectory(scratch.resolve("engine"));
      try (ServingEngine engine =
          ServingEngine.start(machine, directory, SIZE, new Size(1), kind)) {
        result = deed.run(engine, scratch.resolve("image"));
      } catch (IOException | GpuCheckpointException | IllegalStateException e) {
        List<String> errors =
            Files.readString(directory.resolve("errors"))
                .lines()
                .filter(line -> line.contains("rror"))
                .toList();
        result = "FAILED: " + e + "; " + errors;
      }
    }
    out.printf("%-28s %-24s %s%n", kind, what, result);
  }

  private String untouched(ServingEngine engine, Path image) throws IOException {
    String content = engine.get("/write");
    checkpoints().process(engine.pid()).suspend().resume();
    String resumed = seen(engine, content);
    checkpoints().process(engine.pid()).suspend().dump(image).resume();
    return "resumed: %s; restored: %s; %s"
        .formatted(resumed, seen(engine, content), engine.get("/free"));
  }

  private String read(ServingEngine engine, Path image) throws IOException {
    String content = engine.get("/write");
    CheckpointedProcess suspended = checkpoints().process(engine.pid()).suspend();
    String read = engine.get("/read");
    suspended.resume();
    return "%s; resumed: %s"
        .formatted(
            read.equals(content) ? "the CPU reads right" : "the CPU reads WRONG",
            seen(engine, content));
  }

  private String written(ServingEngine engine, Path image) throws IOException {
    String before = engine.get("/write");
    CheckpointedProcess suspended = checkpoints().process(engine.pid()).suspend();
    String content = engine.get("/write");
    suspended.resume();
    String resumed = seen(engine, content);
    checkpoints().process(engine.pid()).suspend().dump(image).resume();
    return "resumed: %s; restored: %s; %s; not the data of before: %s"
        .formatted(resumed, seen(engine, content), engine.get("/free"), !before.equals(content));
  }

  private GpuCheckpoints checkpoints() {
    return machine.checkpoints();
  }

  private static String seen(ServingEngine engine, String content) throws IOException {
    String[] seen = engine.get("/seen").split(" ", 2);
    boolean isRead = engine.get("/read").equals(content);
    return "CPU %s, copy %s, mapped %s"
        .formatted(
            isRead ? "right" : "WRONG",
            seen[0].equals(content) ? "right" : "WRONG",
            seen[1].equals(content) ? "right" : "WRONG");
  }
}
