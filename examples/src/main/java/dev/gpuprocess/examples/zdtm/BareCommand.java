package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.process.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Through the {@code criu} command, as its own test suite does: what fails this way too is not the
 * library's fault.
 *
 * @param criu the program
 */
record BareCommand(String criu) implements Way {

  private static final int LIMIT_SECONDS = 30;

  @Override
  public void dump(Program program, ProcessIdentity process, Path images, Path work)
      throws FailedException {
    List<String> arguments =
        new ArrayList<>(List.of("dump", "-t", Integer.toString(process.pid())));
    arguments.addAll(program.words("opts", "dopts"));
    run(arguments, images, work);
    Instance.awaitGone(process);
  }

  @Override
  public void restore(Program program, int pid, Path images, Path work) throws FailedException {
    List<String> arguments = new ArrayList<>(List.of("restore", "-d"));
    arguments.addAll(program.words("opts", "ropts"));
    run(arguments, images, work);
  }

  /**
   * Checks that this kernel has what CRIU calls by this name.
   *
   * @throws NotHereException when it has not
   */
  void require(String feature) throws FailedException, NotHereException {
    if (exitOf(List.of("check", "--feature", feature)) != 0) {
      throw new NotHereException("this kernel lacks " + feature);
    }
  }

  private void run(List<String> arguments, Path images, Path work) throws FailedException {
    List<String> all = new ArrayList<>(arguments);
    all.addAll(List.of("-D", images.toString(), "-W", work.toString(), "-o", "criu.log"));
    int exit = exitOf(all);
    if (exit != 0) {
      throw new FailedException("criu " + arguments.get(0) + " ended with " + exit);
    }
  }

  private int exitOf(List<String> arguments) throws FailedException {
    List<String> command = new ArrayList<>(List.of(criu));
    command.addAll(arguments);
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectInput(new File("/dev/null"))
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      if (!process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly();
        throw new FailedException("criu " + arguments.get(0) + " does not end");
      }
      return process.exitValue();
    } catch (IOException e) {
      throw new FailedException("criu cannot be started", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new FailedException("interrupted", e);
    }
  }
}
