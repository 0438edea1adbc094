package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.StagedImage;
import dev.gpuprocess.internal.store.VerifiedImage;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** This library, as it dumps and restores a process whose GPU memory is in host memory already. */
final class Library implements Contender {

  private static final Manifest.Options SHELL_JOB =
      new Manifest.Options(
          true, false, false, false, false, false, false, false, false, false, List.of(), "");

  private final CriuDriver criu;

  Library(Path program) {
    this.criu = new RpcCriuDriver(program);
  }

  @Override
  public void dump(int pid, Path place) {
    ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
    DumpOptions options = DumpOptions.ofDefaults();
    if (criu.preflight(process, options).stream().anyMatch(Finding::isProblem)) {
      throw new IllegalStateException("the subject cannot be dumped");
    }
    try (StagedImage image = StagedImage.create(place.resolve("image"), process, 0, null)) {
      criu.dump(
          new DumpRequest(process, image.images(), image.work(), options),
          new DumpListener() {
            @Override
            public void postDump() {
              image.publish(files -> manifest(process, files));
            }
          });
      image.logUnwanted();
    }
  }

  private static Manifest manifest(ProcessIdentity process, List<ImageFile> files) {
    return new Manifest(
        Manifest.FORMAT,
        Instant.now(),
        process.pid(),
        process.startTicks(),
        List.of(),
        Map.of(),
        0,
        "",
        "",
        "",
        SHELL_JOB,
        null,
        files);
  }

  @Override
  public void restore(int pid, Path place) throws IOException {
    ImageDirectory image = ImageDirectory.open(place.resolve("image"));
    Path work = Files.createDirectory(place.resolve("work"));
    RestoreOptions options = RestoreOptions.builder().shellJob(true).build();
    try (VerifiedImage verified = image.verified()) {
      criu.restore(new RestoreRequest(verified.images(), work, pid, options), RestoreListener.NONE);
    }
  }

  @Override
  public String toString() {
    return "this library";
  }
}
