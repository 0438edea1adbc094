package dev.gpuprocess.criu;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.Tls;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A lazy restore in a JVM of its own, which is the first process of its pid namespace: everything
 * there ends with it.
 */
final class LazyRestoreJvm implements AutoCloseable {

  private static final String DONE = "has all of its memory";

  private final Process process;
  private final BufferedReader output;

  /**
   * Starts it.
   *
   * @param prefix puts a command where the process shall arrive
   * @param source where the pages are
   */
  LazyRestoreJvm(List<String> prefix, DumpDirectories site, int pid, PageEndpoint source) {
    List<String> command = new ArrayList<>(prefix);
    command.addAll(List.of("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"));
    command.addAll(
        TestJvm.command(
            LazyRestoreJvm.class,
            site.images().toString(),
            site.work().toString(),
            Integer.toString(pid),
            source.host(),
            Integer.toString(source.port())));
    Tls tls = source.tls();
    if (tls != null) {
      for (Path file : new Path[] {tls.authority(), tls.certificate(), tls.key()}) {
        command.add(String.valueOf(file));
      }
    }
    try {
      process = new ProcessBuilder(command).redirectErrorStream(true).start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    output = process.inputReader(StandardCharsets.UTF_8);
  }

  /** What the other JVM does. */
  public static void main(String[] arguments) throws IOException {
    @Nullable Tls tls =
        arguments.length < 6
            ? null
            : Tls.of(Path.of(arguments[5]), Path.of(arguments[6]), Path.of(arguments[7]));
    PageEndpoint source = new PageEndpoint(arguments[3], Integer.parseInt(arguments[4]), tls);
    RpcCriuDriver driver = new RpcCriuDriver();
    DumpDirectories site =
        new DumpDirectories(driver, Path.of(arguments[0]), Path.of(arguments[1]));
    try (LazyPages pages =
        driver.lazyPages(
            new LazyPagesRequest(site.images(), site.work(), source, DumpDirectories.PATIENCE))) {
      site.restoreLazily(Integer.parseInt(arguments[2]));
      pages.await();
      System.out.println(DONE);
      // The restored process ends with this one: until the test is done or gone.
      System.in.read();
    } catch (GpuCheckpointException e) {
      System.out.println(Files.readString(site.work().resolve("lazy-pages.log")));
      throw e;
    }
  }

  void awaitDone() throws IOException {
    List<String> said = new ArrayList<>();
    for (String line = output.readLine(); line != null; line = output.readLine()) {
      if (line.equals(DONE)) {
        return;
      }
      said.add(line);
    }
    throw new AssertionError("the other JVM ended: " + said);
  }

  @Override
  public void close() {
    TestJvm.end(process);
  }
}
