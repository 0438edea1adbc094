package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.criu.Trainer.PATIENCE;
import static dev.gpuprocess.criu.Trainer.awaitMore;
import static dev.gpuprocess.criu.Trainer.count;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.AdditionalAnswers.delegatesTo;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Launched processes that request snapshots, with real CRIU and the simulated driver. */
@RequiresRoot("dumps and restores trees")
class AskedFromInsideTest {

  /** Two clients, in a and b, beside a trainer, which is the command. */
  private static final String JOB =
      "mkdir -p \"$1/a\" \"$1/b\"; perl \"$2\" \"$1/a\" & perl \"$2\" \"$1/b\" & exec \"$0\" \"$1/count\" 0";

  private static final String SHELL =
      "perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Peer => $ENV{GPUPROCESS_SOCKET});"
          + " print $s \"now\\n\"; print <$s>'";

  /** A client that makes {@link #TOO_MANY} requests at a time, beside a trainer. */
  private static final String MANY =
      """
      perl -MIO::Socket::UNIX -e '
        select(undef, undef, undef, 0.01) until -e "$ARGV[0]/go";
        my @all = map { my $s = IO::Socket::UNIX->new(Peer => $ENV{GPUPROCESS_SOCKET}) or die;
          syswrite($s, "idle\\n"); $s } 1 .. 70;
        open(my $asked, ">", "$ARGV[0]/asked") or die;
        my @answers = map { scalar(<$_>) } @all;
        open(my $out, ">", "$ARGV[0]/half") or die;
        print $out @answers;
        close($out);
        rename("$ARGV[0]/half", "$ARGV[0]/answers");
        sleep 1000 while 1' "$1" & exec "$0" "$1/count" 0
      """;

  private static final String BUSY = "refused: a snapshot is being made, ask again when it is done";
  private static final String NOBODY =
      "refused: no controller accepts requests of this process now";
  private static final int TOO_MANY = 70;

  /** Locks with a longer timeout succeed, because the work has ended. */
  private static final Duration WORK = Duration.ofSeconds(1);

  @TempDir Path directory;
  private Trainer trainer;

  /** The driver, whose GPUs may be busy, and whose checkpoints wait for the test. */
  private CudaDriver gpu;

  private final AtomicInteger refused = new AtomicInteger();
  private volatile boolean busy;
  private volatile boolean atGate;
  private volatile CountDownLatch gate = new CountDownLatch(0);
  private GpuCheckpoints checkpoints;
  private LaunchedProcess job;
  private Path place;
  private final ToldSnapshots told = new ToldSnapshots();
  private final List<ProcessIdentity> restored = new ArrayList<>();

  /** The number of requests, by client. */
  private final Map<Path, Integer> asked = new HashMap<>();

  @BeforeEach
  void prepare() throws IOException {
    RealCriu.assume();
    trainer = new Trainer(directory);
    CudaDriver driver = LibCuda.in(trainer.machine());
    gpu = mock(CudaDriver.class, withSettings().stubOnly().defaultAnswer(delegatesTo(driver)));
    doAnswer(call -> lock(driver, call.getArgument(0), call.getArgument(1)))
        .when(gpu)
        .lock(anyInt(), anyInt());
    doAnswer(call -> checkpoint(driver, call.getArgument(0))).when(gpu).checkpoint(anyInt());
    checkpoints = trainer.checkpoints.toBuilder().cuda(gpu, LibNvml.in(trainer.machine())).build();
    place = Files.createDirectory(directory.resolve("job"));
    try (InputStream script = AskedFromInsideTest.class.getResourceAsStream("ask.pl")) {
      Files.copy(Objects.requireNonNull(script), directory.resolve("ask.pl"));
    }
  }

  private CudaResult lock(CudaDriver driver, int pid, int timeoutMs) {
    if (busy && timeoutMs < WORK.toMillis()) {
      refused.incrementAndGet();
      return CudaResult.NOT_READY;
    }
    return driver.lock(pid, timeoutMs);
  }

  private CudaResult checkpoint(CudaDriver driver, int pid) throws InterruptedException {
    atGate = true;
    assertTrue(gate.await(PATIENCE.toSeconds(), TimeUnit.SECONDS), "the gate was not opened");
    return driver.checkpoint(pid);
  }

  @AfterEach
  void endAll() {
    if (gpu == null) {
      return; // skipped: there is no CRIU
    }
    gate.countDown();
    if (job != null) {
      job.end(Duration.ZERO);
    }
    restored.forEach(AskedFromInsideTest::kill);
    trainer.close();
  }

  /** All processes below the root, which exits after its command. */
  private static void kill(ProcessIdentity root) {
    if (!root.isAlive()) {
      return;
    }
    for (int pid : ProcFs.descendants(root.pid())) {
      ProcessIdentity.of(pid)
          .filter(ProcessIdentity::isAlive)
          .flatMap(each -> ProcessHandle.of(each.pid()))
          .ifPresent(ProcessHandle::destroyForcibly);
    }
    await().atMost(PATIENCE).until(() -> !root.isAlive());
  }

  private ImageStore store() {
    return checkpoints.store(directory.resolve("images"));
  }

  private SnapshotPlan plan() {
    return SnapshotPlan.into(store()).listener(told).build();
  }

  private LaunchOptions.Builder options() {
    return trainer.script(JOB, place, directory.resolve("ask.pl"));
  }

  private void launch() {
    job = checkpoints.launch(options().build(), plan());
    awaitJob(place);
  }

  private static void awaitJob(Path seen) {
    awaitMore(seen.resolve("count"), 0);
    for (String client : List.of("a", "b")) {
      await().atMost(PATIENCE).until(() -> Files.exists(seen.resolve(client).resolve("ready")));
    }
  }

  private Path client(String name) {
    return place.resolve(name);
  }

  /** Lets a client request a snapshot. */
  private void ask(Path client, String line) {
    int number = asked.merge(client, 1, Integer::sum);
    try {
      Path half = Files.writeString(client.resolve("half.ask"), line + "\n");
      Files.move(half, client.resolve("ask." + number), StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Path answerFile(Path client) {
    return client.resolve("answer." + asked.get(client));
  }

  /** Returns and removes the last answer to a client. */
  private String answer(Path client) throws IOException {
    await().atMost(PATIENCE).until(() -> Files.exists(answerFile(client)));
    String answer = Files.readString(answerFile(client)).strip();
    Files.delete(answerFile(client));
    return answer;
  }

  private void signal(String name, int pid) {
    Signal.send(name, pid);
  }

  private RunningProcess restoreNewest() {
    RunningProcess again =
        restore(() -> store().restoreNewest(RestoreOptions.ofDefaults(), one -> {}));
    restored.add(again.identity());
    return again;
  }

  /** Waits until the rest of an ended process is reaped, and a verb on it has ended. */
  private static RunningProcess restore(Callable<CheckpointedProcess> restore) {
    return await()
        .atMost(PATIENCE)
        .ignoreExceptionsMatching(
            e -> e instanceof PidTakenException || e instanceof OperationInProgressException)
        .until(restore, back -> true)
        .resume();
  }

  private void awaitMade(int count) {
    await().atMost(PATIENCE).until(() -> told.made.size() + told.failed.size() >= count);
    assertEquals(List.of(), told.failed);
    assertEquals(count, told.made.size());
  }

  /** The socket of the root. */
  private Path socket() throws IOException {
    String environment =
        Files.readString(
            Path.of("/proc/" + ProcFs.descendants(job.identity().pid()).get(0) + "/environ"),
            StandardCharsets.ISO_8859_1);
    return List.of(environment.split("\0")).stream()
        .filter(each -> each.startsWith("GPUPROCESS_SOCKET="))
        .map(each -> Path.of(each.substring(each.indexOf('=') + 1)))
        .findFirst()
        .orElseThrow();
  }

  private static String tell(SocketChannel to, String text) throws IOException {
    to.write(ByteBuffer.wrap(text.getBytes(StandardCharsets.US_ASCII)));
    return hear(to);
  }

  private static String hear(SocketChannel from) throws IOException {
    ByteBuffer answer = ByteBuffer.allocate(1000);
    String line = "";
    while (!line.endsWith("\n") && from.read(answer) >= 0) {
      line = new String(answer.array(), 0, answer.position(), StandardCharsets.US_ASCII);
    }
    return line.strip();
  }

  private static String tell(Path socket, String text) throws IOException {
    try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(socket))) {
      return tell(channel, text);
    }
  }

  @Test
  void whoAskedIsToldWhetherItIsTheOriginalOrRestored() throws IOException {
    launch();
    List<String> shown = ProcFs.commandLine(job.identity().pid());
    assertEquals(1, shown.size(), "others see nothing of its environment");
    assertTrue(shown.get(0).startsWith("gpuprocess-root: sh -c mkdir "), shown::toString);
    Path socket = socket();
    assertEquals("rwx------", permissions(socket.getParent()));
    assertEquals("rwx------", permissions(socket));
    int then = count(place.resolve("count"));
    ask(client("a"), "now");
    assertEquals("original", answer(client("a")));
    awaitMade(1);
    ProcessImage image = told.made.get(0);
    assertEquals(job.identity().pid(), image.manifest().pid());
    assertEquals(1, image.manifest().members().size());
    try (var lines = Files.lines(image.directory().resolve("criu").resolve("carried.txt"))) {
      assertEquals(2, lines.filter(line -> line.startsWith("library ")).count());
    }
    job.end(Duration.ZERO);
    assertTrue(Files.notExists(socket), "removed at the end");

    RunningProcess again = restoreNewest();
    assertEquals("restored", answer(client("a")));
    awaitMore(place.resolve("count"), then);
    ask(client("b"), "idle");
    assertEquals(NOBODY, answer(client("b")));
    assertEquals(1, told.made.size());
    assertEquals(again.identity().pid(), image.manifest().pid());
  }

  private static String permissions(Path path) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
  }

  @Test
  void signalsAskOnceTheGpuIsIdleOrNowAndTheProgramsOwnHandlersAreItsOwn() throws IOException {
    launch();
    int root = job.identity().pid();
    busy = true;
    signal("USR1", root);
    await().atMost(PATIENCE).until(() -> refused.get() >= 3);
    assertEquals(List.of(), told.made);
    busy = false;
    awaitMade(1);

    busy = true;
    int before = refused.get();
    ask(client("a"), "idle");
    await().atMost(PATIENCE).until(() -> refused.get() > before);
    signal("USR2", root);
    awaitMade(2);
    assertEquals("original", answer(client("a")), "it has got the one that is urgent");

    signal("USR1", perl(root, client("b")));
    await().atMost(PATIENCE).until(() -> Files.exists(client("b").resolve("own")));
    signal("TERM", root);
    assertEquals(OptionalInt.of(3), job.awaitExit(PATIENCE).orElseThrow().code());
    assertEquals(2, told.made.size());
  }

  private static int perl(int root, Path client) {
    return ProcFs.descendants(root).stream()
        .filter(pid -> ProcFs.commandLine(pid).contains(client.toString()))
        .findFirst()
        .orElseThrow();
  }

  @Test
  void whoAsksWhileASnapshotIsMadeIsToldSoAndAFailureIsToldWithItsReason() throws IOException {
    launch();
    gate = new CountDownLatch(1);
    ask(client("a"), "now");
    await().atMost(PATIENCE).until(() -> atGate);
    ask(client("b"), "now");
    assertEquals(BUSY, answer(client("b")));
    gate.countDown();
    assertEquals("original", answer(client("a")));
    awaitMade(1);

    FileTree.remove(directory.resolve("images"));
    ask(client("b"), "idle");
    String refusal = answer(client("b"));
    assertTrue(refusal.startsWith("refused: the directory of images"), refusal);
    await().atMost(PATIENCE).until(() -> told.failed.size() == 1);
    awaitMore(place.resolve("count"), count(place.resolve("count")));
  }

  /** A scheduler suspends the process while it requests. */
  @Test
  void dumpOfAJobThatWaitsForAnAnswerTellsItAfterItsRestoreAndRequestsAreTakenAgain()
      throws IOException {
    launch();
    busy = true;
    ask(client("a"), "idle");
    await().atMost(PATIENCE).until(() -> refused.get() > 0);
    ProcessImage image = parked();
    assertTrue(job.isDumped());
    assertFalse(Files.exists(answerFile(client("a"))));
    // The requested snapshot may be about to notice that the process is gone.
    RunningProcess unused = restore(image::restore);
    assertEquals("restored", answer(client("a")));
    assertFalse(job.isDumped());
    busy = false;
    ask(client("a"), "idle");
    assertEquals("original", answer(client("a")));
    assertEquals(List.of(), told.ended);
    assertEquals(OptionalInt.of(3), job.end(PATIENCE).orElseThrow().code());
    assertEquals(List.of(), told.failed);
    told.awaitEnded();
    assertEquals(List.of(false), told.ended);
  }

  private ProcessImage parked() {
    CheckpointedProcess suspended = betweenAttempts(() -> job.process().suspend());
    return betweenAttempts(() -> suspended.dump(directory.resolve("parked")));
  }

  /** Does a verb when no snapshot is just attempted. */
  private static <T> T betweenAttempts(Supplier<T> verb) {
    while (true) {
      try {
        return verb.get();
      } catch (OperationInProgressException anAttemptIsUnderWay) {
        Thread.onSpinWait();
      }
    }
  }

  @Test
  void hostileClientsStopNobodyElse() throws IOException {
    launch();
    Path socket = socket();
    try (SocketChannel silent = SocketChannel.open(UnixDomainSocketAddress.of(socket))) {
      List<SocketChannel> many = new ArrayList<>();
      for (int i = 0; i < TOO_MANY; i++) {
        many.add(SocketChannel.open(UnixDomainSocketAddress.of(socket)));
      }
      for (SocketChannel each : many) {
        each.close();
      }
      assertEquals("refused: the line is too long", tell(socket, "x".repeat(1000)));
      for (String line :
          List.of("", "NOW", "now idle", "original " + "0".repeat(16), "begun " + "0".repeat(16))) {
        String answer = tell(socket, line + "\n");
        assertTrue(answer.startsWith("refused: ask with a line"), answer);
      }
      assertEquals("refused: nothing was asked", hear(silent));
    }
    ask(client("a"), "now");
    assertEquals("original", answer(client("a")));
    assertEquals("asked", tell(socket, "idle\n"), "it is in no image");
    await().atMost(PATIENCE).until(() -> told.made.size() >= 2);
    assertEquals(List.of(), told.failed);
  }

  @Test
  void moreProcessesAskThanCanWait() throws IOException {
    job = checkpoints.launch(trainer.script(MANY, place).build(), plan());
    awaitMore(place.resolve("count"), 0);
    busy = true;
    Files.createFile(place.resolve("go"));
    await().atMost(PATIENCE).until(() -> Files.exists(place.resolve("asked")));
    await().atMost(PATIENCE).until(() -> refused.get() > 0);
    busy = false;
    awaitText(place.resolve("answers"));
    Map<String, Long> answers =
        Files.readAllLines(place.resolve("answers")).stream()
            .collect(Collectors.groupingBy(each -> each, Collectors.counting()));
    assertEquals(
        Map.of("original", 64L, "refused: too many wait for a snapshot", TOO_MANY - 64L), answers);
    awaitMade(1);
  }

  @Test
  void eachCopyOfAnIsolatedJobIsTold() throws IOException {
    place = Path.of("/dev/shm");
    job =
        checkpoints.launch(
            trainer.isolatedScript(JOB, place, directory.resolve("ask.pl")).build(), plan());
    Path original = seen(job.identity().pid());
    awaitJob(original);
    assertEquals("1", Files.readString(original.resolve("a/ready")).strip(), "its pid inside");
    int dumped = count(original.resolve("count"));
    ask(original.resolve("a"), "now");
    assertEquals("original", answer(original.resolve("a")));
    awaitMade(1);
    for (int copy = 0; copy < 2; copy++) {
      Path there = seen(restoreNewest().identity().pid());
      asked.put(there.resolve("a"), 1);
      assertEquals("restored", answer(there.resolve("a")));
      awaitMore(there.resolve("count"), dumped);
      ask(there.resolve("a"), "now");
      assertEquals(NOBODY, answer(there.resolve("a")), "not a snapshot of the original");
    }
    ask(original.resolve("b"), "now");
    assertEquals("original", answer(original.resolve("b")), "it still has its own socket");
    assertEquals(OptionalInt.of(3), job.end(PATIENCE).orElseThrow().code());
  }

  private static Path seen(int pid) {
    return Path.of("/proc", Integer.toString(pid), "root", "dev", "shm");
  }

  @Test
  void pythonAndAShellAskAsTheReadmeSays() throws IOException {
    Path client = directory.resolve("client.py");
    Files.writeString(
        client,
        """
        import os, socket
        asking = socket.socket(socket.AF_UNIX); asking.connect(os.environ["GPUPROCESS_SOCKET"])
        asking.sendall(b"now\\n"); answer = asking.makefile().readline().strip()
        print(answer, file=open("answer", "w"))
        """);
    Assumptions.assumeTrue(hasPython(), "python3 is not installed");
    Path answer = directory.resolve("answer");
    job =
        checkpoints.launch(
            trainer
                .script(
                    "python3 client.py; told=$(%s); echo $told > shell; exec \"$0\" count 0"
                        .formatted(SHELL))
                .directory(directory)
                .build(),
            plan());
    awaitMore(directory.resolve("count"), 0);
    Path shell = directory.resolve("shell");
    assertEquals("original", Files.readString(answer).strip());
    assertEquals("original", Files.readString(shell).strip());
    awaitMade(2);
    job.end(Duration.ZERO);
    Files.delete(answer);
    restored.add(
        restore(() -> checkpoints.open(told.made.get(0).directory()).restore()).identity());
    awaitText(answer);
    assertEquals("restored", Files.readString(answer).strip());
    kill(restored.get(0));
    Files.delete(shell);
    restoreNewest();
    awaitText(shell);
    assertEquals("restored", Files.readString(shell).strip());
  }

  private static void awaitText(Path file) {
    await().atMost(PATIENCE).until(() -> Files.exists(file) && Files.size(file) > 0);
  }

  private static boolean hasPython() {
    return List.of(System.getenv("PATH").split(":")).stream()
        .anyMatch(each -> Files.isExecutable(Path.of(each, "python3")));
  }

  @Test
  void jobThatCannotStartLeavesNothing() {
    LaunchOptions missing = LaunchOptions.builder("/no/such/program").build();
    SnapshotPlan plan = plan();
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.LAUNCH_MISSING,
        () -> checkpoints.launch(missing, plan));
  }
}
