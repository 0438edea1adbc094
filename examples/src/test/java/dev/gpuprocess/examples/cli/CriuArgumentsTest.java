package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.CriuSwitch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.api.parallel.Resources;

/** Options of CRIU from the command line, the administrator's file and the image. */
@SimulatedGpu
@ResourceLock(Resources.SYSTEM_PROPERTIES)
class CriuArgumentsTest {

  private static final String FILE = "gpuprocess.criu.conf";

  /** The commands that dump or restore, with the rest of their arguments. */
  private static final List<List<Object>> COMMANDS =
      List.of(
          List.of("dump", 1, "image"),
          List.of("snapshot", 1, "image"),
          List.of("restore-image", "image"),
          List.of("launch", "--", "true"),
          List.of("slot", "run", "main"),
          List.of("slurm", "run", "--images", "images", "--", "true"),
          List.of("doctor"));

  @TempDir private Path directory;

  private static Call call(GpuCheckpoints machine, List<Object> command, String... settings) {
    List<Object> all = new ArrayList<>(command);
    int options = all.contains("run") ? 2 : 1;
    for (String each : settings) {
      all.addAll(options, List.of("--criu", each));
    }
    return Call.of(machine, all.toArray());
  }

  @Test
  void eachCommandRefusesUnknownOptions(GpuCheckpoints machine) {
    for (List<Object> command : COMMANDS) {
      Call unknown = call(machine, command, "tcp-clse");
      assertEquals(2, unknown.code(), () -> command + " " + unknown);
      assertTrue(
          unknown
              .err()
              .contains("CRIU has no option 'tcp-clse' that can be set; similar: tcp-close"),
          unknown::err);
      Call both = call(machine, command, "tcp-close", "tcp-established");
      assertEquals(2, both.code(), () -> command + " " + both);
      assertTrue(both.err().contains("set tcp-established or tcp-close"), both::err);
    }
  }

  @Test
  void listsAndCompletesTheTable(GpuCheckpoints machine) {
    String listed = Call.of(machine, "criu-options").out();
    String completion = Call.of(machine, "completion").out();
    for (CriuSwitch<?> each : CriuSwitch.all()) {
      assertTrue(listed.contains(each.name()), each::name);
      assertTrue(completion.contains(each.name()), each::name);
    }
    assertTrue(Call.of(machine, "help", "dump").out().contains("--criu=NAME[=VALUE]"));
  }

  @Test
  void messagesHaveTheFormOfTheCommandLine() {
    assertEquals(
        "use --criu tcp-close and use --criu 'external=unix[7]', or --allow-loss sealed-memory",
        OptionForm.of(
            "use CriuOptions.set(\"tcp-close\") and use CriuOptions.set(\"external=unix[7]\"), or"
                + " DumpOptions.allowLoss(Attribute.SEALED_MEMORY)"));
  }

  /** Each message is applied: what it names is the next argument. */
  @Test
  @RequiresCriu
  void theOptionOfAMessageIsTheArgumentOfTheNextCall(GpuCheckpoints machine, Counter counter)
      throws IOException {
    assertEquals(101, counter.increment());
    counter.ask("lock " + directory.resolve("locked"));
    Path image = directory.resolve("image");
    Call refused = Call.of(machine, "dump", counter.pid(), image);
    assertEquals(4, refused.code(), refused::toString);
    assertTrue(refused.err().contains("use --criu file-locks"), refused::err);
    assertFalse(refused.err().contains("CriuOptions"), refused::err);
    Call doctor = Call.of(machine, "doctor", counter.pid());
    assertTrue(doctor.out().contains("use --criu file-locks"), doctor::out);
    Call cured = Call.of(machine, "doctor", "--criu", "file-locks", counter.pid());
    assertFalse(cured.out().contains("file-locks"), cured::out);
    Call dumped = Call.of(machine, "dump", counter.pid(), image, "--criu", "file-locks");
    assertEquals(0, dumped.code(), dumped::toString);
    Call restored = Call.of(machine, "restore-image", image);
    assertEquals(0, restored.code(), restored::toString);
    assertEquals(102, counter.increment());
    administrates(machine, counter);
  }

  private void administrates(GpuCheckpoints machine, Counter counter) throws IOException {
    Path file = directory.resolve("criu.conf");
    Files.writeString(file, "# for all jobs\n\nfile-locks\n");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
    System.setProperty(FILE, file.toString());
    try {
      Path image = directory.resolve("administrated");
      Call doctor = Call.of(machine, "doctor");
      assertTrue(doctor.out().contains(file + " sets [file-locks]"), doctor::out);
      Call overridden =
          Call.of(machine, "dump", counter.pid(), image, "--criu", "file-locks=false");
      assertEquals(4, overridden.code(), overridden::toString);
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-rw-"));
      Call untrusted = Call.of(machine, "dump", counter.pid(), image);
      assertEquals(4, untrusted.code(), untrusted::toString);
      assertTrue(untrusted.err().contains("chmod go-w " + file), untrusted::err);
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
      Files.writeString(file, "file-loks\n");
      Call unknown = Call.of(machine, "dump", counter.pid(), image);
      assertTrue(unknown.err().contains("line 1 of " + file), unknown::err);
      assertTrue(unknown.err().contains("similar: file-locks"), unknown::err);
      Files.writeString(file, "file-locks\n");
      Call dumped = Call.of(machine, "dump", counter.pid(), image);
      assertEquals(0, dumped.code(), dumped::toString);
      System.clearProperty(FILE);
      assertEquals(0, Call.of(machine, "restore-image", image).code());
      assertEquals(103, counter.increment());
    } finally {
      System.clearProperty(FILE);
    }
  }
}
