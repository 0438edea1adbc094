package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.PlainImage;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A JVM that has no descriptors left. */
@Tag("jdk")
class DescriptorsTest {

  /** JNR fills an array after a failed call too, with numbers that are not descriptors. */
  @Test
  @OutsideUse("A6")
  void criuCannotBeStarted_nothingOfOthersIsClosed_andNoLogStays() {
    RealCriu.assume();
    String said = starved(Descriptorless.class, RealCriu.command());
    assertTrue(said.contains(Descriptorless.REFUSED), said);
    assertTrue(Integer.parseInt(said.replaceAll("(?s).*" + Descriptorless.REFUSED, "")) > 3, said);
  }

  @Test
  void criuThatHangsIsKilled(@TempDir Path directory) {
    Path hangs = FakeCriu.create(directory, "sleep 1000 while 1");
    String said = starved(DescriptorlessKill.class, List.of(hangs.toString()));
    assertTrue(said.endsWith(DescriptorlessKill.ENDED + "signal 9"), said);
  }

  private static String starved(Class<?> program, List<String> arguments) {
    return ProgramRun.of(
            TestJvm.commandBy(Hoard.launcher(), program, arguments.toArray(String[]::new))
                .toArray(String[]::new))
        .succeed(Duration.ofMinutes(3));
  }

  /** A class whose first initialization fails is unusable in its JVM. */
  @Test
  @OutsideUse("A6")
  void classesNeedNoDescriptorsWhenTheyAreInitialised() {
    String said = starved(DescriptorlessStart.class, List.of());
    assertTrue(said.contains(DescriptorlessStart.INITIALISED), said);
  }

  @Test
  void verbsFailWithATypeAndLeaveTheProcessRunning(@TempDir Path directory) {
    RealCriu.assume();
    String said = starved(DescriptorlessVerb.class, List.of(directory.toString()));
    assertTrue(said.contains(DescriptorlessVerb.REFUSED), said);
    assertTrue(
        Integer.parseInt(said.replaceAll("(?s).*" + DescriptorlessVerb.REFUSED, "").strip()) > 3,
        said);
  }

  @Test
  void launchFailsWithATypeAndLeavesNoProcess(@TempDir Path directory) {
    String said = starved(DescriptorlessLaunch.class, List.of(directory.toString()));
    assertTrue(said.contains(DescriptorlessLaunch.REFUSED), said);
    assertTrue(
        Integer.parseInt(said.replaceAll("(?s).*" + DescriptorlessLaunch.REFUSED, "").strip()) > 3,
        said);
  }

  /** A reader of "corrupt" would delete the image. */
  @Test
  @OutsideUse("A6")
  void imageCannotBeRead_isNotCalledCorrupt(@TempDir Path directory) throws IOException {
    ProcessIdentity dumped = new ProcessIdentity(4242, 1);
    Path image = directory.resolve("image");
    try (StagedImage staged = StagedImage.create(image, dumped, 0, null)) {
      Files.writeString(staged.images().resolve("inventory.img"), "of no consequence");
      staged.publish(files -> PlainImage.manifest(dumped, files));
      staged.logUnwanted();
    }
    Path carried = Files.createDirectory(directory.resolve("images"));
    Files.writeString(carried.resolve("carried.txt"), "task 1 cpus all io 0 slack 50000 core 33\n");
    String said =
        starved(DescriptorlessReader.class, List.of(image.toString(), carried.toString())).strip();
    // A newer JVM warns of native access before.
    assertTrue(said.endsWith("good with enough descriptors, unreadable without"), said);
  }
}
