package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * CRIU fails, and one process of the tree has exited. The others are killed only if CRIU may have
 * begun to kill the tree.
 */
@NullUnmarked
@OutsideUse("A1")
class PartlyEndedTreeTest {

  private static final String WITH_A_CHILD = "fork // die; sleep 1000 while 1";

  @TempDir Path directory;
  private Workload tree;
  private ProcessIdentity child;
  private Path images;
  private Path work;

  @BeforeEach
  void start() throws IOException {
    images = Files.createDirectory(directory.resolve("images"));
    work = Files.createDirectory(directory.resolve("work"));
    tree = Workload.of("perl", "-e", WITH_A_CHILD);
    Workload.await(() -> !ProcFs.descendants(tree.pid()).isEmpty(), "the child");
    child = ProcessIdentity.of(ProcFs.descendants(tree.pid()).get(0)).orElseThrow();
  }

  @AfterEach
  void end() {
    Workload.end(child);
    tree.close();
  }

  private CriuException failed(String scenario, DumpListener listener) {
    RpcCriuDriver driver = new RpcCriuDriver(FakeCriu.create(directory, scenario));
    DumpRequest request =
        new DumpRequest(tree.identity(), images, work, DumpDirectories.dump().build());
    CriuException e = assertThrows(CriuException.class, () -> driver.dump(request, listener));
    assertTrue(tree.identity().isAlive(), e::getMessage);
    assertEquals(Fate.RUNNING_AGAIN, e.failure().fate(), e::getMessage);
    return e;
  }

  /** CRIU is killed during a long postDump, as by the OOM killer: the tree continues at once. */
  @Test
  void criuThatDiesBeforeItHasOurConsent() {
    Path file = directory.resolve("criu.pid");
    String scenario =
        """
        open my $out, '>', '%1$s.new'; print $out $$; close $out; rename '%1$s.new', '%1$s';
        reply(6, 1, text(5, text(1, 'post-dump'))); kill 'KILL', $$; sleep 10
        """
            .formatted(file);
    CriuException e =
        failed(
            scenario,
            new DumpListener() {
              @Override
              public void postDump() {
                Workload.await(() -> isDead(file), "the death of CRIU");
                Workload.end(child);
              }
            });
    assertEquals("signal 9", e.criu().orElseThrow().exit());
    assertEquals(List.of(child.pid()), ProcFs.descendants(tree.pid()), "a zombie of its root");
  }

  private static boolean isDead(Path file) {
    try {
      long pid = Long.parseLong(Files.readString(file));
      return ProcFs.stat(pid).filter(stat -> !stat.isDead()).isEmpty();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
