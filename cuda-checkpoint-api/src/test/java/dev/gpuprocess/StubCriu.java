package dev.gpuprocess;

import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A CRIU that only answers questions. */
class StubCriu implements CriuDriver {

  final List<Finding> findings = new ArrayList<>();
  RuntimeException checkFails;
  RuntimeException versionFails;

  @Override
  public String version() {
    if (versionFails != null) {
      throw versionFails;
    }
    return "4.2.1";
  }

  @Override
  public void check() {
    if (checkFails != null) {
      throw checkFails;
    }
  }

  @Override
  public List<Finding> preflight(ProcessIdentity process, DumpOptions options) {
    return findings;
  }

  @Override
  public DumpReport dump(DumpRequest request, DumpListener listener) {
    throw new AssertionError("a doctor dumps nothing");
  }

  @Override
  public RestoreReport restore(RestoreRequest request, RestoreListener listener) {
    throw new AssertionError("a doctor restores nothing");
  }

  @Override
  public DumpedTree describe(Path images) {
    throw new AssertionError("a doctor looks into no image");
  }
}
