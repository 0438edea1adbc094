package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.PlainImage;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.Stream;

/** The restores of section 4.2 of the facts. */
final class RestoreTraps {

  private static final int EEXIST = 17;

  private RestoreTraps() {}

  static List<Trap> all() {
    return Stream.of(
            Stream.of(
                new Trap("4.2 pid taken", RestoreTraps::pidTaken),
                new Trap("4.2 unreaped zombie", RestoreTraps::unreapedZombie),
                new Trap("4.2 pstree.img missing", RestoreTraps::pstreeMissing)),
            missing("inventory", ImageException.Reason.MISSING, "Unexpected EOF on (empty-image)"),
            missing("core-", ImageException.Reason.CORRUPT, "Unexpected EOF on (empty-image)"),
            missing("pages-", ImageException.Reason.CORRUPT, "Can't read pages data"),
            missing("mm-", ImageException.Reason.CORRUPT, "killed by signal 11"),
            missing("files", ImageException.Reason.CORRUPT, "killed by signal 11"),
            missing("pagemap-", ImageException.Reason.CORRUPT, "Restoring FAILED"),
            Stream.of(new Trap("4.2 seccomp.img missing is harmless", RestoreTraps::noSeccomp)),
            Stream.of("inventory", "core-", "mm-", "files", "pstree", "pagemap-", "fdinfo-")
                .map(RestoreTraps::cutInHalf),
            Stream.of(new Trap("4.2 pages cut", RestoreTraps::pagesCut)))
        .flatMap(traps -> traps)
        .toList();
  }

  private static RawCriu.Said raw(DumpDirectories site) {
    return RawCriu.ask(RawCriu.request(criu_req_type.RESTORE, RawCriu.restore(site)));
  }

  /** Dumps a counter; the caller kills it after a restore. */
  static int dumped(TrapFixture fixture, DumpDirectories site) {
    try (Workload counter = fixture.counter()) {
      site.dump(counter.identity(), DumpDirectories.dump().build());
      return counter.pid();
    }
  }

  private static void pidTaken(TrapFixture fixture) {
    DumpDirectories site = fixture.site("site");
    try (Workload counter = fixture.counter()) {
      site.dump(counter.identity(), DumpDirectories.backup().build());
      RawCriu.Said said = raw(site);
      assertEquals(EEXIST, said.errno());
      assertEquals(-1, said.restored());
      assertTrue(RawCriu.log(site).contains("Can't fork for " + counter.pid() + ": File exists"));
      PidTakenException e =
          assertThrows(
              PidTakenException.class,
              () -> site.restore(counter.pid(), DumpDirectories.shellJob().build()));
      assertTrue(e.getMessage().contains("process " + counter.pid() + " (perl"), e.getMessage());
      counter.assertGoesOn();
    }
  }

  private static void unreapedZombie(TrapFixture fixture) {
    DumpDirectories site = fixture.site("site");
    try (Workload parent = Workload.of("perl", "-e", "fork; sleep 1000 while 1")) {
      Workload.await(() -> !ProcFs.descendants(parent.pid()).isEmpty(), "a child");
      int child = ProcFs.descendants(parent.pid()).get(0);
      site.dump(ProcessIdentity.of(child).orElseThrow(), DumpDirectories.dump().build());
      RawCriu.Said said = raw(site);
      assertEquals(EEXIST, said.errno());
      assertEquals(-1, said.restored());
      PidTakenException e =
          assertThrows(
              PidTakenException.class,
              () -> site.restore(child, DumpDirectories.shellJob().build()));
      assertTrue(e.getMessage().contains("its parent " + parent.pid()), e.getMessage());
      assertTrue(parent.identity().isAlive());
    }
  }

  private static void pstreeMissing(TrapFixture fixture) throws IOException {
    DumpDirectories site = fixture.site("site");
    Path tree = site.images().resolve("pstree.img");
    RpcCriuDriver late = new RpcCriuDriver(fixture.wrapped("rm -f " + tree));
    assertFalse(late.version().isEmpty()); // found now, so that the restore need not look for it
    int pid = dumped(fixture, site);
    // Ours does not start CRIU without it, so it has to go when CRIU is starting.
    CriuException e =
        fixture.failedRestore(
            CriuException.class, CriuException.Reason.CRASHED, site.with(late), pid);
    assertEquals(OptionalInt.of(11), e.signal(), e.getMessage());
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    RawCriu.Said said = RawCriu.restoreOfEnded(site);
    assertTrue(said.reply().isEmpty());
    assertEquals("signal 11", said.exit().toString());
    fixture.failedRestore(ImageException.class, ImageException.Reason.CORRUPT, site, pid);
  }

  private static Stream<Trap> missing(String name, ImageException.Reason reason, String criuSays) {
    return Stream.of(
        new Trap(
            "4.2 %s*.img missing".formatted(name),
            fixture -> {
              DumpDirectories raw = fixture.site("raw");
              int pid = dumped(fixture, raw);
              Files.delete(raw.images(name).get(0));
              assertFailsRaw(raw, pid, criuSays);
              DumpDirectories ours = fixture.site("ours");
              int other = dumped(fixture, ours);
              Files.delete(ours.images(name).get(0));
              ImageException e = fixture.failedRestore(ImageException.class, reason, ours, other);
              assertTrue(e.getMessage().contains("image"), e.getMessage());
            }));
  }

  /** CRIU fails without a reason, and the pid that it reports must not be signalled. */
  private static void assertFailsRaw(DumpDirectories site, int pid, String criuSays) {
    RawCriu.Said said = RawCriu.restoreOfEnded(site);
    assertFalse(said.success());
    assertEquals(0, said.errno());
    assertTrue(said.restored() == -1 || said.restored() == pid, () -> "" + said.restored());
    assertTrue(RawCriu.log(site).contains(criuSays), () -> RawCriu.log(site));
  }

  private static void noSeccomp(TrapFixture fixture) throws IOException {
    DumpDirectories site = fixture.site("site");
    int pid = dumped(fixture, site);
    Files.delete(site.images("seccomp").get(0));
    RawCriu.Said said = RawCriu.restoreOfEnded(site);
    assertTrue(said.success(), () -> RawCriu.log(site));
    Workload.end(ProcessIdentity.of(pid).orElseThrow());
    TrapFixture.awaitFree(pid);
    Workload.end(site.restore(pid, DumpDirectories.shellJob().build()).process());
  }

  private static Trap cutInHalf(String name) {
    return new Trap(
        "4.2 %s*.img cut in half".formatted(name),
        fixture -> {
          DumpDirectories raw = fixture.site("raw");
          int root = dumped(fixture, raw);
          cut(raw.images(name).get(0));
          RawCriu.Said said = RawCriu.restoreOfEnded(raw);
          assertFalse(said.success());
          assertTrue(said.restored() == -1 || said.restored() == root, () -> "" + said.restored());
          assertTrue(
              RawCriu.log(raw).matches("(?s).*Read \\d+ bytes while \\d+ expected.*"),
              () -> RawCriu.log(raw));
          DumpDirectories ours = fixture.site("ours");
          int pid = dumped(fixture, ours);
          cut(ours.images(name).get(0));
          fixture.failedRestore(ImageException.class, ImageException.Reason.CORRUPT, ours, pid);
        });
  }

  static void cut(Path file) throws IOException {
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
      channel.truncate(channel.size() / 2);
    }
  }

  /** CRIU would loop: section 0 shows that, and how it is killed. Images are checked before. */
  private static void pagesCut(TrapFixture fixture) throws IOException {
    Path directory = fixture.directory().resolve("image");
    try (Workload counter = fixture.counter()) {
      PlainImage.dump(
          fixture.driver(), counter.identity(), directory, DumpDirectories.backup().build());
    }
    ImageDirectory image = ImageDirectory.open(directory);
    image.verify();
    Path pages = fixture.site("none").at(image.images()).images("pages-").get(0);
    cut(pages);
    ImageException e =
        assertReason(ImageException.class, ImageException.Reason.CORRUPT, image::verify);
    assertTrue(e.getMessage().contains(pages.getFileName().toString()), e.getMessage());
  }
}
