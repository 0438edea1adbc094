package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.examples.zdtm.Way.PidTakenException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** One test program in one flavor: started, dumped, restored, and asked whether it noticed. */
final class ProgramRun {

  /** How long the pid of a process that is gone may be taken. */
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
   * Tries it.
   *
   * @throws FailedException when it noticed, or did not come that far
   * @throws NotHereException when it cannot be tried here
   */
  void run() throws IOException, FailedException, NotHereException {
    try (Hooks hooks = new Hooks(stage, program);
        ProgramEnvironment ground = ProgramEnvironment.prepare(stage, program, flavor);
        Instance instance = Instance.start(stage, program, ground, hooks)) {
      run(hooks, ground, instance);
    }
  }

  /** One that CRIU must refuse may be refused at either end; refused at the dump, it goes on. */
  private void run(Hooks hooks, ProgramEnvironment ground, Instance instance)
      throws IOException, FailedException, NotHereException {
    boolean refused = program.has("crfail");
    int pid = instance.identity().pid();
    Path dumps = ground.newImages(pid);
    Path images = Files.createDirectory(dumps.resolve("1"));
    Path work = Files.createDirectory(dumps.resolve("work"));
    @Nullable VisibleState before = ground.hasNamespaces() ? VisibleState.of(pid) : null;
    hooks.preDump(pid);
    try {
      way.dump(ground.dumpOptions(), instance.identity(), images, work);
    } catch (FailedException e) {
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
      restored = restore(ground, pid, images, work);
    } catch (FailedException e) {
      if (!refused) {
        throw e;
      }
      return;
    }
    instance.returned(restored);
    if (refused) {
      throw new FailedException("CRIU should have refused it, and did not");
    }
    hooks.postRestore(restored, dumps);
    if (before != null) {
      before.requireSame(VisibleState.of(restored));
    }
    instance.conclude();
  }

  private int restore(ProgramEnvironment ground, int pid, Path images, Path work)
      throws FailedException, NotHereException {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      try {
        return way.restore(ground.restoreOptions(), pid, images, work);
      } catch (PidTakenException e) {
        if (System.nanoTime() - end >= 0) {
          throw e;
        }
      }
    }
  }
}
