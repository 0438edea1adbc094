package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.ImageDirectories;
import dev.gpuprocess.criu.internal.rpc.RpcOptions;
import dev.gpuprocess.criu.internal.rpc.SimpleRequest;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CpuMismatchException;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageMissingException;
import dev.gpuprocess.options.CpuCheck;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Pattern;

/** CPUINFO_DUMP and CPUINFO_CHECK: which CPU images need, in a file of their own beside them. */
public final class CpuImage {

  public static final String NAME = "cpuinfo.img";

  /** What CRIU says of an image from another CPU. */
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
    SimpleRequest question =
        new SimpleRequest(command, "record CPU", "recording the CPU of this machine in " + images);
    if (!Files.isDirectory(images) || !Files.isWritable(images)) {
      throw new ImageDirectoryException(
          images + " is no directory that can be written to", Failure.of("record CPU", 0));
    }
    CriuResult outcome = ask(question, criu_req_type.CPUINFO_DUMP, CpuCheck.INSTRUCTIONS);
    if (!outcome.success()) {
      throw question.failure(outcome);
    }
  }

  public void check(CpuCheck check) {
    if (!Files.isRegularFile(images.resolve(NAME))) {
      throw new ImageMissingException(
          images + " does not say which CPU it needs: record it there, or dump with a cpuCheck",
          Failure.of("check CPU", 0));
    }
    SimpleRequest question =
        new SimpleRequest(
            command, "check CPU", "comparing this machine's CPU with that of " + images);
    CriuResult outcome = ask(question, criu_req_type.CPUINFO_CHECK, check);
    if (!outcome.success()) {
      CriuFailureBuilder diagnosis = question.diagnosis(outcome);
      throw mismatch(diagnosis, SimpleRequest.untouched())
          .orElseGet(
              () -> ImageSet.explain(diagnosis, SimpleRequest.untouched(), outcome.givenUp()));
    }
  }

  /** The failure, if it is for the CPU. */
  static Optional<GpuCheckpointException> mismatch(
      CriuFailureBuilder diagnosis, TreeOutcome ending) {
    return diagnosis.errors().stream().anyMatch(error -> OTHER_CPU.matcher(error).find())
        ? Optional.of(exception(diagnosis, ending))
        : Optional.empty();
  }

  private static CpuMismatchException exception(CriuFailureBuilder diagnosis, TreeOutcome ending) {
    return new CpuMismatchException(
        diagnosis.message(
            ending,
            "the image was made on another kind of CPU (" + diagnosis.reason() + ")",
            "restore it on a CPU of that kind, or relax the cpuCheck if the program bears it"),
        diagnosis.failure(ending),
        diagnosis.criu(),
        null);
  }

  private CriuResult ask(SimpleRequest question, criu_req_type type, CpuCheck check) {
    try (ImageDirectories directories = ImageDirectories.open(images, images)) {
      // What it logs is a line or two: better in its output than in a file among the images.
      criu_opts.Builder opts =
          criu_opts
              .newBuilder()
              .setImagesDirFd(directories.images())
              .setCpuCap(RpcOptions.mask(check))
              .setLogLevel(ERRORS_ONLY)
              .setLogToStderr(true);
      return question.ask(criu_req.newBuilder().setType(type).setOpts(opts).build());
    } catch (NativeCallException e) {
      throw new CriuUnavailableException(
          question.subject() + " did not begin: " + e.getMessage(),
          Failure.of(question.operation(), 0),
          e);
    }
  }
}
