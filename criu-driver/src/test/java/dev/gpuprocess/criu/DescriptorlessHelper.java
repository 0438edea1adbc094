package dev.gpuprocess.criu;

import dev.gpuprocess.options.PageEndpoint;
import java.nio.file.Path;
import java.time.Duration;

/**
 * Starts and ends what CRIU leaves running, a page server, while nothing can be opened; a JVM of
 * its own.
 */
final class DescriptorlessHelper {

  /** The pid of what was started. */
  static final String STARTED = "started";

  /** Has this JVM open nothing more, and is ready then; the server is a process of its own. */
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
   * @param args a directory
   * @throws Exception what that throws
   */
  public static void main(String[] args) throws Exception {
    Path directory = Path.of(args[0]);
    Hoard.loadClasses(DescriptorlessHelper.class.getClassLoader());
    pageServer(directory);
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
