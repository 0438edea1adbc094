package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.contract.PlainImage;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** This library, with a process whose GPU memory is in host memory already. */
final class Library implements Contender {

  private final CriuDriver criu;

  Library(Path program) {
    this.criu = new RpcCriuDriver(program);
  }

  @Override
  public void dump(int pid, Path place) {
    ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
    DumpOptions options = DumpOptions.ofDefaults();
    if (criu.preflight(process, options).stream().anyMatch(Finding::isProblem)) {
      throw new IllegalStateException("the process cannot be dumped");
    }
    PlainImage.dump(criu, process, place.resolve("image"), options);
  }

  @Override
  public void restore(int pid, Path place) throws IOException {
    Path work = Files.createDirectory(place.resolve("work"));
    RestoreOptions options = RestoreOptions.builder().criu(c -> c.shellJob(true)).build();
    PlainImage.restore(criu, place.resolve("image"), work, options);
  }

  @Override
  public String toString() {
    return "this library";
  }
}
