package dev.gpuprocess.criu;

import dev.gpuprocess.options.PageEndpoint;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/**
 * Starts and ends what CRIU leaves running, a lazy-pages helper or a page server, while nothing can
 * be opened; a JVM of its own.
 */
final class DescriptorlessHelper {

  /** What to start. */
  enum Kind {
    LAZY_PAGES,
    PAGE_SERVER
  }

  /** The pid of what was started. */
  static final String STARTED = "started";

  /** Has this JVM open nothing more, and is ready then. */
  private static final String LAZY_PAGES =
      """
      #!/bin/sh
      echo $$ >"${0%%/*}"/%s
      prlimit --pid $PPID --nofile=16: && printf x >&3
      exec sleep 600
      """
          .formatted(STARTED);

  /** The same; the server is a process of its own. */
  private static final String PAGE_SERVER =
      """
      my $server = fork // die;
      unless ($server) { exec 'sleep', '600' }
      my $file = $0 =~ s|[^/]*$|%s|r;
      open my $told, '>', $file or die; print $told $server; close $told;
      system 'prlimit', '--pid', getppid, '--nofile=16:' and die;
      reply($type, 1, text(6, field(2, 1) . field(3, $server)));
      receive();
      """
          .formatted(STARTED);

  private DescriptorlessHelper() {}

  /**
   * Starts it, and closes it.
   *
   * @param args a directory, and what to start
   * @throws Exception what that throws
   */
  public static void main(String[] args) throws Exception {
    Path directory = Path.of(args[0]);
    Hoard.loadClasses(DescriptorlessHelper.class.getClassLoader());
    switch (Kind.valueOf(args[1])) {
      case LAZY_PAGES -> lazyPages(directory);
      case PAGE_SERVER -> pageServer(directory);
    }
  }

  private static void lazyPages(Path directory) throws IOException {
    Path program = FakeCriu.write(directory.resolve("criu"), LAZY_PAGES);
    Files.createFile(directory.resolve("lazy-pages.out"));
    LazyPages.start(
            program, new LazyPagesRequest(directory, directory, null, Duration.ofSeconds(30)))
        .close();
  }

  private static void pageServer(Path directory) {
    RpcCriuDriver driver = new RpcCriuDriver(FakeCriu.create(directory, PAGE_SERVER));
    driver.version();
    PageEndpoint here = new PageEndpoint("127.0.0.1", 0);
    driver
        .pageServer(new PageServerRequest(directory, directory, here, Duration.ofSeconds(30)))
        .close();
  }
}
