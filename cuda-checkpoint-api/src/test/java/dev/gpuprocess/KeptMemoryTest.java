package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.DyingJvm;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.SaveAreaMachine;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A job that keeps the memory of its save files: it duplicates the mapping, and gives a writable
 * descriptor to a process outside of the tree. The memory is free when the job is back on its GPU,
 * although both still have the files.
 */
@RequiresRoot("traces other processes")
class KeptMemoryTest {

  private static final int MIB = 16;
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final int ROUNDS = Integer.getInteger("gpuprocess.kept.rounds", 15);

  private static final int MREMAP_MAYMOVE = 1;

  @TempDir Path directory;
  private SaveAreaMachine machine;
  private Pattern job;
  private Accomplice accomplice;

  /** The files of which the job has a second mapping. */
  private final Set<FileId> kept = new HashSet<>();

  @BeforeEach
  void start() throws IOException {
    assumeTrue(ProgramRun.of("perl", "-e", "1").run().exit() == 0, "perl is not installed");
    machine =
        SaveAreaMachine.in(
            directory,
            "size=1800m",
            SimulatedDriver.builder().memory(2L << 30).contextMemory(256L << 20));
    job = Pattern.launch(MIB).on(machine.driver()).notOurChild().start();
    accomplice = Accomplice.start();
  }

  @AfterEach
  void end() {
    if (accomplice != null) {
      accomplice.close();
    }
    if (job != null) {
      job.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  /** The bytes of all files of the file system, with a name and without. */
  private long taken() {
    return machine.memory().takenBytes();
  }

  /** A process outside of the tree that keeps every save file of a process open for writing. */
  private record Accomplice(Process process, BufferedReader out, BufferedWriter in)
      implements AutoCloseable {

    private static final String SCRIPT =
        """
        $| = 1;
        my @kept;
        while (my $pid = <STDIN>) {
          chomp $pid;
          for my $file (glob "/proc/$pid/map_files/*") {
            next unless (readlink($file) // '') =~ m{/#\\d+ \\(deleted\\)$};
            open(my $handle, '+<', $file) or next;
            push @kept, $handle;
          }
          print scalar(@kept), "\\n";
        }
        """;

    static Accomplice start() throws IOException {
      Process perl = new ProcessBuilder("perl", "-e", SCRIPT).start();
      return new Accomplice(perl, perl.inputReader(), perl.outputWriter());
    }

    /** Returns how many descriptors it has by now. */
    int keep(long pid) throws IOException {
      in.write(pid + "\n");
      in.flush();
      return Integer.parseInt(String.valueOf(out.readLine()));
    }

    @Override
    public void close() {
      process.destroyForcibly();
    }
  }

  /** Returns the size of the duplicates. */
  private long keepMappings() throws IOException, UntraceableException {
    List<Mapping> areas = SaveFileMappings.candidates((int) job.pid());
    return RemoteCalls.borrow(
        ProcessIdentity.of(job.pid()).orElseThrow(),
        PATIENCE,
        thread -> {
          long bytes = 0;
          for (Mapping each : areas) {
            if (kept.add(each.file())) {
              long size = each.addresses().bytes();
              long unused =
                  thread.call(SystemCall.MREMAP, each.start(), 0, size, MREMAP_MAYMOVE, 0);
              bytes += size;
            }
          }
          return bytes;
        });
  }

  private void keepEverything(int round) throws IOException, UntraceableException {
    assertTrue(keepMappings() >= (long) MIB << 20, "it has a mapping");
    assertTrue(accomplice.keep(job.pid()) > round, "its accomplice has a descriptor");
  }

  @Test
  void suspendedOften_nothingStays() throws IOException, UntraceableException {
    assertEquals(0, taken());
    for (int round = 0; round < ROUNDS; round++) {
      CheckpointedProcess suspended = machine.checkpoints().process(job.pid()).suspend();
      keepEverything(round);
      suspended.resume();
      assertEquals(0, taken(), "after round " + round);
    }
    assertEquals(WHOLE, job.verify());
    assertTrue(SaveFileMappings.bytes((int) job.pid()) > 0, "it keeps its mappings");
  }

  @Test
  void killedWhileSuspended_nothingStays() throws IOException, UntraceableException {
    CheckpointedProcess unused = machine.checkpoints().process(job.pid()).suspend();
    keepEverything(0);
    assertTrue(taken() >= (long) MIB << 20);
    job.kill();
    await().atMost(60, SECONDS).until(() -> taken() == 0);
  }

  /**
   * The files are in the journal, and the next controller finds them before the driver's restore.
   */
  @Test
  void anotherControllerResumes_nothingStays() throws IOException {
    suspendByAnotherJvm();
    assertEquals(1, accomplice.keep(job.pid()));
    assertInstanceOf(CheckpointedProcess.class, machine.checkpoints().inspect(job.pid())).resume();
    assertEquals(0, taken());
    assertEquals(WHOLE, job.verify());
  }

  /** As if it had been killed between the unlock and the cut. */
  @Test
  void theControllerDiesBeforeTheCut_recoveryDoesIt() throws IOException, UntraceableException {
    suspendByAnotherJvm();
    keepEverything(0);
    LibCuda cuda = LibCuda.in(machine.driver().directory());
    assertEquals(CudaResult.SUCCESS, cuda.restore((int) job.pid(), Map.of()));
    assertEquals(CudaResult.SUCCESS, cuda.unlock((int) job.pid()));
    assertTrue(taken() >= (long) MIB << 20, "kept until then");
    assertEquals(1, machine.checkpoints().recover().size());
    assertEquals(0, taken());
    assertEquals(WHOLE, job.verify());
  }

  /** A tool that knows nothing of the files, which this controller still holds. */
  @Test
  void aToolResumes_theNextSuspendKeepsOneSet() {
    LibCuda cuda = LibCuda.in(machine.driver().directory());
    CheckpointedProcess first = machine.checkpoints().process(job.pid()).suspend();
    long once = taken();
    assertEquals(CudaResult.SUCCESS, cuda.restore(first.identity().pid(), Map.of()));
    assertEquals(CudaResult.SUCCESS, cuda.unlock(first.identity().pid()));
    CheckpointedProcess second = machine.checkpoints().process(job.pid()).suspend();
    assertTrue(taken() < 2 * once, taken() + " bytes are taken, and by one suspend " + once);
    second.resume();
    assertEquals(0, taken());
    assertEquals(WHOLE, job.verify());
  }

  /** A restore that fails leaves the process its memory. */
  @Test
  void theRestoreFails_theMemoryStaysUntilItSucceeds() throws IOException, UntraceableException {
    CheckpointedProcess suspended = machine.checkpoints().process(job.pid()).suspend();
    keepEverything(0);
    machine.driver().faults(Fault.in("cuCheckpointProcessRestore").answers(999));
    assertThrows(GpuCheckpointException.class, suspended::resume);
    assertTrue(taken() >= (long) MIB << 20, "the driver needs it still");
    machine.driver().faults();
    suspended.resume();
    assertEquals(0, taken());
    assertEquals(WHOLE, job.verify());
  }

  private void suspendByAnotherJvm() throws IOException {
    Process controller =
        DyingJvm.start(
            Controller.class,
            List.of(
                Long.toString(job.pid()),
                machine.driver().directory().toString(),
                directory.resolve("state").toString(),
                machine.memory().point().toString()));
    assertEquals(false, DyingJvm.awaitEnd(controller, "suspended", -1));
  }

  /** A controller that dies when the process is suspended. */
  static final class Controller {

    private Controller() {}

    public static void main(String[] arguments) {
      CheckpointedProcess unused =
          SaveAreaMachine.checkpoints(
                  Path.of(arguments[1]), Path.of(arguments[2]), Path.of(arguments[3]))
              .process(Long.parseLong(arguments[0]))
              .suspend();
      System.out.println("suspended");
      Runtime.getRuntime().halt(0);
    }
  }
}
