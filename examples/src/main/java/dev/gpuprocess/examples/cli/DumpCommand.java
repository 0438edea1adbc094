package dev.gpuprocess.examples.cli;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import java.nio.file.Path;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Writes a process to disk; it ends when the image is complete. */
@Command(
    name = "dump",
    description = "Write a running or checkpointed process to disk; it ends once that is complete.")
final class DumpCommand extends ProcessCommand {

  @Parameters(index = "1", paramLabel = "DIR", description = "The image to make.")
  private Path directory = Path.of("");

  @Option(
      names = "--store",
      description = "DIR is a directory of images; the image is named in it.")
  private boolean store;

  @Mixin private final FirstProcess first = new FirstProcess();

  @Mixin private final DumpArguments dump = new DumpArguments();

  @Mixin private final CriuArguments criu = new CriuArguments();

  @Mixin private final PollArguments polls = new PollArguments();

  @Override
  boolean allowsPolls() {
    return polls.areAllowed();
  }

  @Override
  CriuOptions criu() {
    return criu.options();
  }

  @Override
  int run(Session session) {
    first.requireMeant(pid);
    GpuProcess process = session.inspect(pid);
    DumpOptions options = dump.options(session);
    if (session.progress().isShown()) {
      Path image = store ? directory.resolve("image") : directory;
      session.progress().expect(Moved.gpuBytes(process.members()), Moved.intoImage(image));
    }
    Images.made(session, image(session, process, options));
    return ExitCode.DONE.code();
  }

  private ProcessImage image(Session session, GpuProcess process, DumpOptions options) {
    if (process instanceof RunningProcess running) {
      return store
          ? session.machine().store(directory).dump(running, options)
          : running.dump(directory, options);
    }
    if (process instanceof CheckpointedProcess checkpointed) {
      return store
          ? session.machine().store(directory).dump(checkpointed, options)
          : checkpointed.dump(directory, options);
    }
    throw wrongState(process, "resume it first");
  }
}
