package dev.gpuprocess.examples.cli;

import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The commands on images that are on disk. */
@Command(
    name = "images",
    description = "List, describe, verify, prune or copy images.",
    synopsisSubcommandLabel = "COMMAND",
    mixinStandardHelpOptions = true,
    subcommands = {
      ImagesCommand.ListImages.class,
      ImagesCommand.Describe.class,
      ImagesCommand.Verify.class,
      ImagesCommand.Prune.class,
      ImagesCommand.Copy.class
    })
final class ImagesCommand {

  /** A script that watches a directory with a typo in its name must notice that. */
  private static void requireDirectory(Path store) {
    if (!Files.isDirectory(store)) {
      throw new CommandException(
          ExitCode.FIX_AND_RETRY, "DIRECTORY", store + " is not a directory, so it has no images");
    }
  }

  /** {@code images list}. */
  @Command(name = "list", description = "List the images in a directory, newest first.")
  static final class ListImages extends CliCommand {

    @Parameters(paramLabel = "STORE", description = "A directory of images.")
    private Path store = Path.of("");

    @Override
    int run(Session session) {
      requireDirectory(store);
      List<StoredImage> images = session.machine().store(store).list();
      session
          .output()
          .table(
              images.stream().map(Images::value).toList(),
              "image",
              "pid",
              "created",
              "sizeBytes",
              "label",
              "problem");
      return ExitCode.DONE.code();
    }
  }

  /** {@code images describe}. */
  @Command(name = "describe", description = "Print what is in an image: processes, memory, GPUs.")
  static final class Describe extends CliCommand {

    @Parameters(paramLabel = "IMAGE", description = "The image.")
    private Path directory = Path.of("");

    @Option(
        names = "--html",
        paramLabel = "FILE",
        description = "Write it all to an HTML page, which needs no server.")
    private @Nullable Path html;

    @Override
    int run(Session session) {
      ProcessImage image = session.machine().open(directory);
      if (html != null) {
        return writePage(session, image, html);
      }
      Manifest manifest = image.manifest();
      Map<String, @Nullable Object> value = Images.value(image.directory(), manifest);
      value.remove("problem");
      value.put("command", manifest.commandLine());
      value.put("gpuBytes", gpuBytes(manifest));
      value.put("driver", manifest.driverVersion());
      value.put("criu", manifest.criuVersion());
      value.put("kernel", manifest.kernel());
      value.put("lost", manifest.lost());
      value.put(
          "differences", image.differences().stream().map(MachineDifference::toString).toList());
      Optional<List<String>> criu = image.criuCommand();
      value.put("plainCriu", criu.orElse(null));
      value.put("plainCriuProblem", criu.isPresent() ? null : problem(manifest));
      List<Map<String, @Nullable Object>> processes =
          image.describe().processes().stream().map(Describe::value).toList();
      if (session.output().isJson()) {
        value.put("processes", processes);
        session.output().details(value);
      } else {
        value.put("plainCriu", criu.map(Describe::line).orElse(null));
        session.output().details(value);
        session
            .output()
            .table(processes, "pid", "parent", "threads", "files", "dumpedBytes", "name");
      }
      return ExitCode.DONE.code();
    }

    /** Returns words as they are typed into a shell. */
    private static String line(List<String> words) {
      return words.stream().map(OptionForm::quoted).collect(Collectors.joining(" "));
    }

    /** Returns why CRIU alone cannot restore an image. */
    private static String problem(Manifest manifest) {
      return manifest.memoryFiles().isEmpty()
          ? "the process has mounts or a terminal that only restore-image makes again"
          : "GPU memory is in files that only restore-image reads; an image without them is made by"
              + " gpuprocess suspend before the dump";
    }

    /** Returns the bytes of all members together, by GPU. */
    private static Map<String, Long> gpuBytes(Manifest manifest) {
      Map<String, Long> all = new TreeMap<>();
      manifest
          .members()
          .forEach(
              member ->
                  member
                      .gpuBytes()
                      .forEach((gpu, bytes) -> all.merge(gpu.text(), bytes, Long::sum)));
      return all;
    }

    private static int writePage(Session session, ProcessImage image, Path file) {
      try {
        Files.writeString(file, ImagePage.of(image));
      } catch (IOException e) {
        throw new CommandException(
            ExitCode.FIX_AND_RETRY, "FILE", "the page cannot be written: " + e);
      }
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("image", image.directory());
      value.put("page", file);
      session.output().result(value, "wrote " + file);
      return ExitCode.DONE.code();
    }

    private static Map<String, @Nullable Object> value(DumpedProcess process) {
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("pid", process.pid());
      value.put("parent", process.parent());
      value.put("name", process.name());
      value.put("command", process.commandLine());
      value.put("threads", process.threads().size());
      value.put("files", process.files().size());
      value.put("dumpedBytes", process.bytesDumped());
      return value;
    }
  }

  /** {@code images verify}. */
  @Command(name = "verify", description = "Read images as a whole and compare their checksums.")
  static final class Verify extends CliCommand {

    @Parameters(paramLabel = "IMAGE", arity = "1..*", description = "The images.")
    private List<Path> directories = List.of();

    @Override
    int run(Session session) {
      List<Map<String, @Nullable Object>> verified = new ArrayList<>();
      for (Path directory : directories) {
        ProcessImage image = session.machine().open(directory);
        image.verify(session.cancellation());
        verified.add(Images.value(image.directory(), image.manifest()));
      }
      session.output().table(verified, "image", "pid", "created", "sizeBytes");
      return ExitCode.DONE.code();
    }
  }

  /** {@code images prune}. */
  @Command(name = "prune", description = "Remove the images that a retention policy does not keep.")
  static final class Prune extends CliCommand {

    @Parameters(paramLabel = "STORE", description = "A directory of images.")
    private Path store = Path.of("");

    @Option(
        names = "--keep",
        required = true,
        paramLabel = "N",
        description = "Keep the last N images that verify.")
    private int keep;

    @Option(
        names = "--keep-one-per",
        paramLabel = "INTERVAL:SPAN",
        description = "Also keep one image for each interval of a span, such as 1h:2d.")
    private List<RetentionPolicy.OnePer> intervals = List.of();

    @Override
    int run(Session session) {
      requireDirectory(store);
      RetentionPolicy policy = CommandException.valid(() -> builder().build());
      PruneReport report = session.machine().store(store).prune(policy, session.cancellation());
      List<Map<String, @Nullable Object>> values = new ArrayList<>();
      report.removed().forEach(image -> values.add(value(image, "removed", null)));
      report.spared().forEach((image, why) -> values.add(value(image, "kept", why)));
      session.output().table(values, "image", "action", "reason");
      return ExitCode.DONE.code();
    }

    private RetentionPolicy.Builder builder() {
      RetentionPolicy.Builder policy = RetentionPolicy.builder().keepLast(keep);
      for (RetentionPolicy.OnePer each : intervals) {
        policy.keepOnePer(each.interval(), each.span());
      }
      return policy;
    }

    private static Map<String, @Nullable Object> value(
        Path image, String action, @Nullable String reason) {
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("image", image);
      value.put("action", action);
      value.put("reason", reason);
      return value;
    }
  }

  /** {@code images copy}. */
  @Command(name = "copy", description = "Copy an image, and verify the copy.")
  static final class Copy extends CliCommand {

    @Parameters(index = "0", paramLabel = "IMAGE", description = "The image.")
    private Path source = Path.of("");

    @Parameters(index = "1", paramLabel = "TARGET", description = "The directory to make.")
    private Path target = Path.of("");

    @Option(
        names = "--store",
        description = "TARGET is a directory of images; the copy keeps its name in it.")
    private boolean store;

    @Override
    int run(Session session) {
      ProcessImage image = session.machine().open(source);
      if (session.progress().isShown()) {
        Path made = store ? target.resolve("image") : target;
        session.progress().expect(image.manifest().bytes(), Moved.intoImage(made));
      }
      Map<String, @Nullable Object> value =
          store
              ? Images.value(session.machine().store(target).fetch(source, session.cancellation()))
              : Images.value(
                  image.copyTo(target, session.cancellation()).directory(), image.manifest());
      value.put("seconds", session.seconds());
      session
          .output()
          .result(
              value,
              "copied to %s, %s, %s"
                  .formatted(
                      value.get("image"),
                      Output.bytes(image.manifest().bytes()),
                      Words.seconds(session.seconds())));
      return ExitCode.DONE.code();
    }
  }
}
