package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.LaunchOptions.Output;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The options of a job as {@code job start} reads them. */
final class StarterArguments {

  private static final Path NOWHERE = Path.of("/dev/null");

  private final List<byte[]> all = new ArrayList<>();

  private StarterArguments() {}

  static List<byte[]> of(
      LaunchOptions options,
      Optional<Path> preload,
      @Nullable RequestChannel requests,
      @Nullable CudaJobFile jobFile) {
    StarterArguments arguments = new StarterArguments();
    arguments.text("gpuprocess-start");
    arguments.text("start");
    if (options.isolated()) {
      arguments.option("isolate", "yes"); // goes first
    }
    arguments.files(options);
    arguments.environment(options);
    preload.ifPresent(library -> arguments.option("preload", library));
    if (jobFile != null) {
      arguments.option("job-file", jobFile.path());
    }
    if (requests != null) {
      arguments.option("socket", requests.socket());
      arguments.option("requests", requests.fifo());
    }
    // Last, so that it is not the directory that other paths are looked for in.
    options.directory().ifPresent(directory -> arguments.option("directory", directory));
    arguments.text("--");
    options.command().forEach(word -> arguments.all.add(NativePath.encode(word)));
    return arguments.all;
  }

  private void files(LaunchOptions options) {
    option("in", options.input().orElse(NOWHERE));
    output("out", options.output());
    options.error().ifPresentOrElse(error -> output("err", error), () -> option("join", "yes"));
  }

  private void output(String name, Output output) {
    Path file = output.file();
    switch (output.kind()) {
      case NOWHERE -> option(name, NOWHERE);
      case CALLER -> {} // is there already
      case FILE, END_OF_FILE -> {
        if (file != null) {
          boolean append = output.kind() == Output.Kind.END_OF_FILE;
          option(append ? name + "+" : name, file.toAbsolutePath());
        }
      }
    }
  }

  private void environment(LaunchOptions options) {
    for (String name : options.removedEnvironment()) {
      text("unset");
      all.add(NativePath.encode(name));
    }
    options
        .environment()
        .forEach(
            (name, value) -> {
              text("set");
              all.add(joined(NativePath.encode(name), NativePath.encode(value)));
            });
  }

  private static byte[] joined(byte[] name, byte[] value) {
    ByteArrayOutputStream joined = new ByteArrayOutputStream();
    joined.writeBytes(name);
    joined.write('=');
    joined.writeBytes(value);
    return joined.toByteArray();
  }

  private void option(String name, Path value) {
    text(name);
    all.add(NativePath.bytes(value));
  }

  private void option(String name, String value) {
    text(name);
    text(value);
  }

  private void text(String ascii) {
    all.add(ascii.getBytes(StandardCharsets.US_ASCII));
  }
}
