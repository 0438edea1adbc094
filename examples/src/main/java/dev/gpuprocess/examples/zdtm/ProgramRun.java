package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.examples.zdtm.Way.PidTakenException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** A run of one test program in one flavor: started, dumped, restored and checked. */
final class ProgramRun {

  /** The time for which the pid of an exited process may stay taken. */
  private static final Duration PATIENCE = Duration.ofSeconds(5);

  private final Stage stage;
  private final Program program;
  private final Flavor flavor;
  private final Way way;

  ProgramRun(Stage stage, Program program, Flavor flavor, Way way) {
    this.stage = stage;
    this.program = program;
    this.flavor = flavor;
    this.way = way;
  }

  /**
   * Runs the program.
   *
   * @throws FailedException if a step fails or the program reports a change
   * @throws NotHereException if the program cannot be tried here
   */
  void run() throws IOException, FailedException, NotHereException {
    try (Hooks hooks = new Hooks(stage, program);
        ProgramEnvironment environment = ProgramEnvironment.prepare(stage, program, flavor);
        Instance instance = Instance.start(stage, program, environment, hooks)) {
      run(hooks, environment, instance);
    }
  }

  /** A program that CRIU must refuse may be refused at the dump, and then continues, or later. */
  private void run(Hooks hooks, ProgramEnvironment environment, Instance instance)
      throws IOException, FailedException, NotHereException {
    boolean refused = program.has("crfail");
    int pid = instance.identity().pid();
    Path dumps = environment.newImages(pid);
    Path images = Files.createDirectory(dumps.resolve("1"));
    Path work = Files.createDirectory(dumps.resolve("work"));
    @Nullable VisibleState before = environment.hasNamespaces() ? VisibleState.of(pid) : null;
    hooks.preDump(pid);
    try {
      way.dump(environment.dumpOptions(), instance.identity(), images, work);
    } catch (FailedException | UncheckedIOException e) {
      if (!refused) {
        throw e;
      }
      instance.conclude();
      return;
    }
    instance.awaitGone();
    hooks.preRestore(pid);
    int restored;
    try {
      restored = restore(environment, pid, images, work);
    } catch (FailedException | UncheckedIOException e) {
      if (!refused) {
        throw e;
      }
      return;
    }
    instance.restored(restored);
    if (refused) {
      throw new FailedException("CRIU did not refuse the program");
    }
    hooks.postRestore(restored, dumps);
    if (before != null) {
      before.requireSame(VisibleState.of(restored));
    }
    instance.conclude();
  }

  private int restore(ProgramEnvironment environment, int pid, Path images, Path work)
      throws FailedException, NotHereException {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      try {
        return way.restore(environment.restoreOptions(), pid, images, work);
      } catch (PidTakenException e) {
        if (System.nanoTime() - end >= 0) {
          throw e;
        }
      }
    }
  }
}
