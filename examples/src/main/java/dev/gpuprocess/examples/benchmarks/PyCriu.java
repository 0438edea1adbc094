package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;

/** CRIU's own Python client, if it is installed, with a sync of its files. */
record PyCriu(Path criu) implements Contender {

  private static final Duration LIMIT = Duration.ofMinutes(10);

  private static final String SCRIPT =
      """
      import os, sys, pycriu
      what, binary, pid, place = sys.argv[1:]
      client = pycriu.criu()
      client.use_binary(binary)
      client.opts.images_dir_fd = os.open(place, os.O_DIRECTORY)
      client.opts.shell_job = True
      client.opts.log_file = what + '.log'
      if what == 'dump':
        client.opts.pid = int(pid)
        client.dump()
        os.execvp('sync', ['sync'] + [place + '/' + name for name in os.listdir(place)] + [place])
      client.restore()
      """;

  static boolean isInstalled() {
    try {
      return ProgramRun.of("python3", "-c", "import pycriu").run().exit() == 0;
    } catch (UncheckedIOException withoutPython) {
      return false;
    }
  }

  @Override
  public void dump(int pid, Path place) {
    run("dump", pid, place);
  }

  @Override
  public void restore(int pid, Path place) {
    run("restore", pid, place);
  }

  private void run(String what, int pid, Path place) {
    String number = Integer.toString(pid);
    ProgramRun.of("python3", "-c", SCRIPT, what, criu.toString(), number, place.toString())
        .succeed(LIMIT);
  }

  @Override
  public String toString() {
    return "pycriu, sync";
  }
}
