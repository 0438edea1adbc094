package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.ImageDirectories;
import dev.gpuprocess.criu.internal.rpc.RpcOptions;
import dev.gpuprocess.criu.internal.rpc.SimpleRequest;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.options.CpuCheck;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * CPUINFO_DUMP and CPUINFO_CHECK: records in a file beside the images which CPU they need, and
 * compares it.
 */
public final class CpuImage {

  public static final String NAME = "cpuinfo.img";

  /** What CRIU reports for images from another kind of CPU. */
  private static final Pattern OTHER_CPU =
      Pattern.compile(
          "CPU (instruction )?capabilities do not match|FPU feature required by image"
              + "|CPU xfeatures has unsupported|CPU xsave (max )?size mismatch"
              + "|Image carries unknown vendor|Unknown cpu vendor");

  private static final int ERRORS_ONLY = 1;

  private final CriuCommand command;
  private final Path images;

  public CpuImage(CriuCommand command, Path images) {
    this.command = command;
    this.images = images;
  }

  public void record() {
    SimpleRequest request =
        new SimpleRequest(command, "record CPU", "recording the CPU of this machine in " + images);
    if (!Files.isDirectory(images) || !Files.isWritable(images)) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          images + " is not a writable directory",
          Failure.of("record CPU", 0));
    }
    request.requireSuccess(make(request, criu_req_type.CPUINFO_DUMP, CpuCheck.INSTRUCTIONS));
  }

  public void check(CpuCheck check) {
    if (!Files.isRegularFile(images.resolve(NAME))) {
      throw new ImageException(
          ImageException.Reason.MISSING,
          images + " has no record of its CPU: record it there, or dump with a cpuCheck",
          Failure.of("check CPU", 0));
    }
    SimpleRequest request =
        new SimpleRequest(
            command, "check CPU", "comparing this machine's CPU with that of " + images);
    CriuResult result = make(request, criu_req_type.CPUINFO_CHECK, check);
    if (!result.success()) {
      CriuFailureBuilder builder = request.builder(result);
      throw mismatch(builder, SimpleRequest.UNTOUCHED)
          .orElseGet(() -> ImageSet.explain(builder, SimpleRequest.UNTOUCHED, result.givenUp()));
    }
  }

  /** The failure, if the CPU is the reason. */
  static Optional<GpuCheckpointException> mismatch(
      CriuFailureBuilder builder, TreeOutcome outcome) {
    if (builder.errors().stream().noneMatch(error -> OTHER_CPU.matcher(error).find())) {
      return Optional.empty();
    }
    return Optional.of(
        MachineUnfitException.cpuMismatch(
            builder.message(
                outcome,
                "the image was made on another kind of CPU (" + builder.reason() + ")",
                "restore it on a CPU of that kind, or relax the cpuCheck if the program can run on this one"),
            builder.failure(outcome),
            builder.criu()));
  }

  private CriuResult make(SimpleRequest request, criu_req_type type, CpuCheck check) {
    try (ImageDirectories directories = ImageDirectories.open(images, images)) {
      // CRIU logs only a line or two: better in its output than in a file among the images.
      criu_opts.Builder opts =
          criu_opts
              .newBuilder()
              .setImagesDirFd(directories.images())
              .setCpuCap(RpcOptions.mask(check))
              .setLogLevel(ERRORS_ONLY)
              .setLogToStderr(true);
      return request.ask(criu_req.newBuilder().setType(type).setOpts(opts).build());
    } catch (IOException e) {
      throw CriuFailureBuilder.notBegun(request.operation(), request.subject(), 0, e);
    }
  }
}
