package dev.gpuprocess.criu;

import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;

/**
 * The two directories of a dump, and the driver to fill them with.
 *
 * @param driver which CRIU
 * @param images where the images go
 * @param work where the log goes
 */
record DumpDirectories(CriuDriver driver, Path images, Path work) {

  static final Duration PATIENCE = Duration.ofSeconds(45);

  /** Makes both directories below one that is made too. */
  static DumpDirectories in(Path directory, CriuDriver driver) {
    try {
      Files.createDirectory(directory);
      return new DumpDirectories(
          driver,
          Files.createDirectory(directory.resolve("images")),
          Files.createDirectory(directory.resolve("work")));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static DumpOptions.Builder dump() {
    return DumpOptions.builder().deadline(PATIENCE);
  }

  static DumpOptions.Builder backup() {
    return dump().leaveRunning(true);
  }

  static RestoreOptions.Builder shellJob() {
    return RestoreOptions.builder().criu(c -> c.shellJob(true)).deadline(PATIENCE);
  }

  DumpDirectories with(CriuDriver other) {
    return new DumpDirectories(other, images, work);
  }

  /** The same, with the images elsewhere. */
  DumpDirectories at(Path otherImages) {
    return new DumpDirectories(driver, otherImages, work);
  }

  DumpReport dump(ProcessIdentity process, DumpOptions options) {
    return dump(process, options, DumpListener.NONE);
  }

  DumpReport dump(ProcessIdentity process, DumpOptions options, DumpListener listener) {
    return driver.dump(new DumpRequest(process, images, work, options), listener);
  }

  RestoreReport restore(int pid, RestoreOptions options) {
    return restore(pid, options, RestoreListener.NONE);
  }

  RestoreReport restore(int pid, RestoreOptions options, RestoreListener listener) {
    return driver.restore(request(pid, options), listener);
  }

  /** The request of a restore. */
  RestoreRequest request(int pid, RestoreOptions options) {
    return new RestoreRequest(images, work, pid, options);
  }

  /** Image files whose names begin so. */
  List<Path> images(String prefix) {
    try (Stream<Path> files = Files.list(images)) {
      return files.filter(file -> file.getFileName().toString().startsWith(prefix)).toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
