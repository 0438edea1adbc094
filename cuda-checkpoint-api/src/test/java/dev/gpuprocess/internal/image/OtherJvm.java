package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/** Makes images in a JVM of its own, which can have another umask, and which can die. */
final class OtherJvm implements AutoCloseable {

  /** The number of files that are copied before this JVM is killed. */
  static final int COPIED_FILES = 9;

  private final Process process;
  private final BufferedReader output;

  private OtherJvm(List<String> command) throws IOException {
    process = new ProcessBuilder(command).redirectErrorStream(true).start();
    output = process.inputReader(StandardCharsets.UTF_8);
  }

  static OtherJvm start(String... arguments) throws IOException {
    return new OtherJvm(TestJvm.command(OtherJvm.class, arguments));
  }

  static OtherJvm withFlags(List<String> flags, String... arguments) throws IOException {
    return new OtherJvm(TestJvm.command(flags, OtherJvm.class, arguments));
  }

  static OtherJvm withUmask(String umask, String... arguments) throws IOException {
    List<String> command = new ArrayList<>(List.of("sh", "-c", "umask $0; exec \"$@\"", umask));
    command.addAll(TestJvm.command(OtherJvm.class, arguments));
    return new OtherJvm(command);
  }

  /** The task of the other JVM. */
  public static void main(String[] arguments) throws IOException {
    Path target = Path.of(arguments[1]);
    switch (arguments[0]) {
      case "publish" -> TestImages.publish(target, null);
      case "verify" -> {
        // Each read once took new direct memory, which is freed only by a collection.
        for (int i = 0; i < Integer.parseInt(arguments[2]); i++) {
          ImageDirectory.open(target).verify();
        }
      }
      case "begin" -> {
        ProcessIdentity self = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
        try (StagedImage staged = StagedImage.create(target, self, 0, null)) {
          TestImages.fill(staged.images(), new Random(3));
          System.out.println("begun");
          // Waits in the middle until it is killed, or its parent has exited.
          System.in.read();
        }
      }
      case "copy" -> {
        ImageDirectory image = ImageDirectory.open(Path.of(arguments[2]));
        WorkLimit unlimited = WorkLimit.readingAtLength("copy", 0, () -> false);
        try (ImageCopy copy = ImageCopy.begin(image, target, null, unlimited)) {
          for (ChecksummedFile file : image.manifest().files().subList(0, COPIED_FILES)) {
            copy.copy(file);
          }
          System.out.println("begun");
          System.in.read();
        }
      }
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  ProcessIdentity identity() {
    return ProcessIdentity.of(process.pid()).orElseThrow();
  }

  /** Waits until it is in the middle of making an image. */
  OtherJvm awaitBegun() throws IOException {
    List<String> said = new ArrayList<>();
    for (String line = output.readLine(); line != null; line = output.readLine()) {
      said.add(line);
      if (line.equals("begun")) {
        return this;
      }
    }
    throw new AssertionError("the other JVM ended: " + said);
  }

  void waitForSuccess() throws InterruptedException {
    String said = String.join("\n", output.lines().toList());
    assertTrue(process.waitFor(30, TimeUnit.SECONDS), said);
    assertEquals(0, process.exitValue(), said);
  }

  /** Kills it with SIGKILL and waits until the process is gone. */
  @Override
  public void close() {
    process.destroyForcibly();
    try {
      assertTrue(process.waitFor(30, TimeUnit.SECONDS));
      output.close();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
