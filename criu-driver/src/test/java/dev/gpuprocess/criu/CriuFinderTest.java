package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.ErrorText;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.criu.internal.process.CriuBinary;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuVersion;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.CurrentUser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@NullUnmarked
class CriuFinderTest {

  private static final String KERNEL = "6.18.5-generic";

  @TempDir Path directory;
  private final Map<String, String> environment = new HashMap<>();

  private CriuBinary find() {
    return find(null);
  }

  private CriuBinary find(@org.jspecify.annotations.Nullable String property) {
    return new CriuFinder(new CriuLocator(null, property, environment), KERNEL, CriuFinder.LIMIT)
        .find("dump");
  }

  private Path fake(String name, int major, int minor, int sublevel) {
    return FakeCriu.create(directory.resolve(name), major, minor, sublevel, "");
  }

  private String unavailable() {
    return assertReason(
            MachineUnfitException.class, MachineUnfitException.Reason.NO_CRIU, this::find)
        .getMessage();
  }

  @Test
  void nowhere_namesEveryPlaceAndTheCure() {
    environment.put("PATH", "/nowhere:/neither");
    environment.put("HOME", directory.toString());
    String message = unavailable();
    assertTrue(message.contains("GPUPROCESS_CRIU (not set)"), message);
    assertTrue(message.contains("/nowhere:/neither"), message);
    assertTrue(message.contains(directory + "/.cache/gpuprocess/criu/VERSION/criu"), message);
    assertTrue(message.contains("install CRIU 4.2 or later (bin/criu in the sources"), message);
  }

  @Test
  void named_andMissing_isNotReplacedByAnother() {
    environment.put("PATH", fake("path", 4, 2, 1).getParent().toString());
    environment.put("GPUPROCESS_CRIU", directory.resolve("typo").toString());
    String message = unavailable();
    assertTrue(message.contains("GPUPROCESS_CRIU: " + directory.resolve("typo")), message);
    assertTrue(message.contains("the file does not exist"), message);
  }

  @Test
  void named_butNoProgram() throws IOException {
    environment.put(
        "GPUPROCESS_CRIU", Files.writeString(directory.resolve("text"), "hello").toString());
    assertTrue(unavailable().contains(ErrorText.EACCES));
  }

  @Test
  void named_butAnotherProgram_saysWhatItPrinted() {
    Path other = FakeCriu.write(directory.resolve("other"), "#!/bin/sh\necho usage: other >&2\n");
    environment.put("GPUPROCESS_CRIU", other.toString());
    String message = unavailable();
    assertTrue(message.contains("does not report its version: exit 0, usage: other"), message);
  }

  @Test
  void property_goesBeforeVariable() {
    environment.put("GPUPROCESS_CRIU", fake("variable", 4, 2, 0).toString());
    Path named = fake("property", 4, 2, 1);
    assertEquals(named, find(named.toString()).program());
  }

  @Test
  void path_goesBeforeProvisioned_unlessItIsTooOld() {
    environment.put("GPUPROCESS_HOME", directory.resolve("home").toString());
    Path provisioned = fake("home/criu/4.2.1", 4, 2, 1);
    environment.put("PATH", fake("path", 4, 2, 0).getParent().toString());
    assertEquals(new CriuVersion(4, 2, 0), find().version());
    environment.put("PATH", fake("old", 3, 17, 1).getParent().toString());
    assertEquals(provisioned, find().program());
  }

  @Test
  void provisioned_newestFirst() {
    environment.put("XDG_CACHE_HOME", directory.toString());
    fake("gpuprocess/criu/4.9", 4, 9, 0);
    fake("gpuprocess/criu/4.10.1", 4, 10, 1);
    fake("gpuprocess/criu/tmp", 9, 9, 9);
    assertEquals(new CriuVersion(4, 10, 1), find().version());
  }

  @Test
  void provisioned_butTheNameIsNoVersion() {
    fake("home/criu/99999999999.0", 9, 9, 9);
    Path fine = fake("home/criu/4.2.1", 4, 2, 1);
    environment.put("GPUPROCESS_HOME", directory.resolve("home").toString());
    assertEquals(fine, find().program());
  }

  private void assertSkipped(String reason) {
    Assumptions.assumeTrue(CurrentUser.isRoot(), "only root has to mind");
    environment.put("PATH", "/nowhere");
    String message = unavailable();
    assertTrue(message.contains("root does not run it, because " + reason), message);
  }

  @Test
  @OutsideUse("D7")
  void provisioned_butSomebodyElseCanWriteALibraryBesideIt() throws IOException {
    environment.put("XDG_CACHE_HOME", directory.toString());
    Path program = fake("gpuprocess/criu/4.2.1", 4, 2, 1);
    assertEquals(program, find().program());
    Path library = Files.createFile(program.resolveSibling("libc.so.6"));
    Files.setPosixFilePermissions(library, PosixFilePermissions.fromString("rw-rw-r--"));
    assertSkipped(library + " can be written by others");
  }

  @Test
  @OutsideUse("D7")
  @RequiresRoot("gives files away")
  void provisioned_butTheCacheIsSomebodyElses() throws IOException {
    environment.put("XDG_CACHE_HOME", directory.toString());
    fake("gpuprocess/criu/4.2.1", 4, 2, 1);
    Path cache = directory.resolve("gpuprocess");
    Files.setAttribute(cache, "unix:uid", 12_345);
    assertSkipped(cache + " belongs to uid 12345");
  }

  @Test
  @OutsideUse("D7")
  void named_butEverybodyCanReplaceIt() throws IOException {
    Path program = fake("shared", 4, 2, 1);
    environment.put("GPUPROCESS_CRIU", program.toString());
    Path shared = directory.resolve("shared");
    Files.setPosixFilePermissions(shared, PosixFilePermissions.fromString("rwxrwxrwx"));
    assertSkipped(shared + " can be written by others");
  }

  @Test
  void tooOld_namesWhatWasFoundAndWhatIsNeeded() {
    environment.put("GPUPROCESS_CRIU", fake("old", 4, 1, 1).toString());
    String message =
        assertReason(
                MachineUnfitException.class, MachineUnfitException.Reason.CRIU_TOO_OLD, this::find)
            .getMessage();
    assertTrue(message.contains("is version 4.1.1"), message);
    assertTrue(message.contains("kernel 6.18.5-generic needs 4.2 or later"), message);
    assertTrue(message.contains("install CRIU 4.2 or later (bin/criu in the sources"), message);
  }

  @Test
  void found_isRemembered() throws IOException {
    Path program = fake("once", 4, 2, 1);
    environment.put("GPUPROCESS_CRIU", program.toString());
    CriuFinder finder =
        new CriuFinder(new CriuLocator(null, null, environment), KERNEL, CriuFinder.LIMIT);
    finder.find("dump");
    Files.delete(program);
    assertEquals(program, finder.find("dump").program());
  }

  @ParameterizedTest
  @CsvSource({
    "4.2.1, 6.18.44, true",
    "4.2.0, 6.16.0-rc1, true",
    "4.1.1, 6.16.0, false",
    "4.1.1, 6.15.9, true",
    "4.0.0, 6.13.0, false",
    "4.0.0, 6.12.1, true",
    "4.1.0, 7.0.0, false",
    "3.19.0, 5.15.0-91-generic, true",
    "3.17.1, 5.10.0, false",
    "4.2.0, unheard-of, true",
  })
  void fitness(String version, String kernel, boolean fit) {
    String[] parts = version.split("\\.");
    CriuBinary binary =
        new CriuBinary(
            CriuCommand.direct(Path.of("/criu")),
            new CriuVersion(
                Integer.parseInt(parts[0]), Integer.parseInt(parts[1]), Integer.parseInt(parts[2])),
            false);
    assertEquals(fit, binary.unfitFor(kernel).isEmpty(), () -> "" + binary.unfitFor(kernel));
  }

  @Test
  void fitness_ofADevelopmentBuild_isTakenAtItsWord() {
    CriuBinary binary =
        new CriuBinary(CriuCommand.direct(Path.of("/criu")), new CriuVersion(4, 1, 0), true);
    assertEquals(Optional.empty(), binary.unfitFor(KERNEL));
  }
}
