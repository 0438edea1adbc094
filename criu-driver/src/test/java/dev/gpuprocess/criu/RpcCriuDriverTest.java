package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.DumpOptions;
import dev.gpuprocess.ProcessIdentity;
import dev.gpuprocess.RestoreOptions;
import dev.gpuprocess.contract.CriuDriverContract;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;

/** The contract, with the real CRIU; and its traps that concern this driver alone. */
@NullUnmarked
class RpcCriuDriverTest extends CriuDriverContract {

  private static final CriuDriver DRIVER = new RpcCriuDriver();

  @Override
  protected CriuDriver driver() {
    RealCriu.assume();
    return DRIVER;
  }

  @Test
  void restore_ofTruncatedPages_thatSpinsForEver_isEndedWithoutAStray() throws IOException {
    CriuDriver driver = driver();
    Path images = Files.createDirectory(directory.resolve("cut"));
    Path work = Files.createDirectory(directory.resolve("cut-work"));
    int pid;
    try (Workload workload = Workload.counter(directory, 4)) {
      pid = workload.pid();
      driver.dump(
          new DumpRequest(workload.identity(), images, work, DumpOptions.ofDefaults()),
          DumpListener.NONE);
    }
    try (DirectoryStream<Path> pages = Files.newDirectoryStream(images, "pages-*.img")) {
      for (Path file : pages) {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
          channel.truncate(channel.size() / 2);
        }
      }
    }
    RestoreOptions options =
        RestoreOptions.builder().shellJob(true).logLevel(1).deadline(Duration.ofSeconds(2)).build();
    OperationTimedOutException e =
        assertThrows(
            OperationTimedOutException.class,
            () ->
                driver.restore(
                    new RestoreRequest(images, work, pid, options), RestoreListener.NONE));
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    assertFalse(ProcessIdentity.of(pid).filter(ProcessIdentity::isAlive).isPresent());
    long size = Files.size(work.resolve("restore.log"));
    Workload.await(() -> ProcessIdentity.of(pid).isEmpty(), "init to reap the half-built task");
    assertEquals(size, Files.size(work.resolve("restore.log")));
  }
}
