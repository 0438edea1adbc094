package dev.gpuprocess.examples.agent;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.util.concurrent.ListenableFuture;
import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.examples.agent.protocol.health.HealthCheckResponse;
import dev.gpuprocess.examples.agent.protocol.health.HealthCheckResponse.ServingStatus;
import dev.gpuprocess.examples.agent.protocol.images.DumpRequest;
import dev.gpuprocess.examples.agent.protocol.images.Image;
import dev.gpuprocess.examples.agent.protocol.images.ListImagesRequest;
import dev.gpuprocess.examples.agent.protocol.images.ListImagesResponse;
import dev.gpuprocess.examples.agent.protocol.images.RestoreImageRequest;
import dev.gpuprocess.examples.agent.protocol.images.RestoredJob;
import dev.gpuprocess.examples.agent.protocol.snapshot.BackendConfig;
import dev.gpuprocess.examples.agent.protocol.snapshot.GetOperationResponse;
import dev.gpuprocess.examples.agent.protocol.snapshot.JobState;
import dev.gpuprocess.examples.agent.protocol.snapshot.OperationStatus;
import dev.gpuprocess.examples.agent.protocol.snapshot.OtherBackendConfig;
import dev.gpuprocess.examples.agent.protocol.timeslice.AcquireResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.GroupStatus;
import dev.gpuprocess.examples.cli.Main;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.RetentionPolicy;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** The agent, as a client of llm-d's protocols sees it, on simulated GPUs. */
@SimulatedGpu
@Tag("slow")
class AgentTest {

  private static final String SECRET = "0123456789abcdef-of-a-test";
  private static final String POD = "7b2c1e4a-0e3a-4f1b-9c2d-2a5f6e8d1234";
  private static final String CONTAINER = "0123456789abcdef".repeat(4);
  private static final Duration PATIENCE = Duration.ofSeconds(40);
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  @TempDir private Path directory;

  private final GpuCheckpoints machine;
  private Path token;
  private Agent agent;
  private PeerClient client;

  AgentTest(GpuCheckpoints machine) {
    this.machine = machine;
  }

  @BeforeEach
  void start() throws IOException {
    token = Files.writeString(directory.resolve("token"), SECRET + "\n");
    Files.setPosixFilePermissions(token, PosixFilePermissions.fromString("rw-------"));
    agent = agent();
    client = new PeerClient(agent.port(), SECRET);
  }

  @AfterEach
  void stop() {
    client.close();
    agent.close();
  }

  private Agent agent() throws IOException {
    return agent(null);
  }

  private Agent agent(Agent.@Nullable Tls tls) throws IOException {
    return agent(machine, tls);
  }

  private Agent agent(GpuCheckpoints machine, Agent.@Nullable Tls tls) throws IOException {
    InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    return new Agent(
        machine,
        new Agent.Options(
            any,
            any,
            token,
            tls,
            directory.resolve("images"),
            RetentionPolicy.builder().keepLast(1).build(),
            Duration.ofMillis(200),
            "node-1",
            directory.resolve("proc")));
  }

  private static Status.Code refused(Executable call) {
    return assertThrows(StatusRuntimeException.class, call).getStatus().getCode();
  }

  private GetOperationResponse done(String operation) {
    GetOperationResponse ended = client.ended(operation);
    assertEquals(OperationStatus.OPERATION_STATUS_COMPLETE, ended.getStatus(), ended::getError);
    return ended;
  }

  private HttpResponse<String> get(String path) throws IOException, InterruptedException {
    URI uri = URI.create("http://127.0.0.1:%s%s".formatted(agent.httpPort(), path));
    return HTTP.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
  }

  /** Writes what {@code /proc} has of a process in a pod. */
  private void inTwoPods(Counter first, Counter second) throws IOException {
    inPod(first.pid(), POD, "first");
    inPod(second.pid(), POD.replace('7', '8'), "second");
  }

  private void inPod(long pid, String pod, String job) throws IOException {
    Path entry = Files.createDirectories(directory.resolve("proc/" + pid));
    Files.writeString(entry.resolve("cgroup"), "0::/kubepods/pod" + pod + "/" + CONTAINER + "\n");
    Files.writeString(
        entry.resolve("environ"), job.isEmpty() ? "A=b\0" : Jobs.VARIABLE + "=" + job + "\0");
  }

  @Test
  void suspendsAndResumesNamedProcesses(Counter counter) throws Exception {
    GetOperationResponse saved = done(client.snapshot("job-a", counter.pid()));
    assertTrue(saved.getStorageBytes() >= 16 << 20, saved::toString);
    assertTrue(saved.hasSnapshotDeviceBytes(), saved::toString);
    assertTrue(machine.inspect(counter.pid()) instanceof CheckpointedProcess);
    assertEquals(JobState.JOB_STATE_SAVED, client.state("job-a"));
    assertEquals(Status.Code.FAILED_PRECONDITION, refused(() -> client.snapshot("job-a")));
    done(client.restore("job-a"));
    assertEquals(101, counter.increment());
    assertEquals(JobState.JOB_STATE_RUNNING, client.state("job-a"));
    assertEquals("already-running", client.restore("job-a"));
    done("already-running");
    String metrics = get("/metrics").body();
    assertTrue(
        metrics.contains("gpuprocess_pod_checkpoint_operations_total{result=\"success\"} 1.0"),
        metrics);
    assertTrue(metrics.contains("gpuprocess_pod_restore_duration_seconds_count 1"), metrics);
    assertTrue(metrics.contains("gpuprocess_gpu_memory_total_bytes{gpu=\"GPU-"), metrics);
    assertTrue(metrics.contains("gpuprocess_build_info{version=\""), metrics);
    assertTrue(metrics.contains("gpuprocess_images_free_bytes "), metrics);
    assertTrue(metrics.contains("jvm_memory_used_bytes{"), metrics);
    assertTrue(client.status().getAcceleratorStatuses(0).getMemoryTotalBytes() > 0);
  }

  /** A process that is only an agent; this JVM has other loggers. */
  @Test
  void logsWhoMovedWhat_andNoStacksOfStrangers(Counter counter, SimulatedDriver driver)
      throws Exception {
    Path err = directory.resolve("err");
    Process jvm =
        new ProcessBuilder(
                TestJvm.command(
                    List.of(
                        "-Dgpuprocess.driver.dir=" + driver.directory(),
                        "-Dgpuprocess.state.dir=" + machine.stateDirectory()),
                    Main.class,
                    "agent",
                    "--no-token",
                    "--listen=127.0.0.1:0",
                    "--http=127.0.0.1:0",
                    "--images=" + directory.resolve("volume")))
            .redirectError(err.toFile())
            .start();
    try (BufferedReader out = jvm.inputReader()) {
      Matcher port = Pattern.compile("gRPC on port (\\d+)").matcher(String.valueOf(out.readLine()));
      assertTrue(port.find(), () -> text(err));
      int number = Integer.parseInt(port.group(1));
      try (Socket stranger = new Socket(InetAddress.getLoopbackAddress(), number)) {
        stranger.getOutputStream().write("GET / HTTP/1.1\r\n\r\n".getBytes(US_ASCII));
        stranger.getInputStream().readAllBytes(); // until the agent closes it
      }
      try (PeerClient caller = new PeerClient(number, null)) {
        caller.ended(caller.snapshot("job-a", counter.pid()));
        caller.ended(caller.restore("job-a"));
      }
      assertTrue(
          Await.until(PATIENCE, () -> text(err).contains("Restore of job job-a by /127.0.0.1:")),
          () -> text(err));
    } finally {
      TestJvm.end(jvm);
    }
    List<String> others =
        text(err)
            .lines()
            .filter(line -> !line.startsWith("gpuprocess: ") && !line.matches("\\d{4}-\\d\\d-.*"))
            .toList();
    assertEquals(List.of(), others, () -> text(err));
    assertEquals(101, counter.increment());
  }

  private static String text(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void findsTheProcessesOfPods(Counter first, SimulatedDriver driver) throws IOException {
    try (Counter second = driver.start(Counter.launch())) {
      inPod(first.pid(), POD, "");
      inPod(second.pid(), POD.replace('7', '8'), "trainer");
      done(client.snapshot(POD));
      assertTrue(machine.inspect(first.pid()) instanceof CheckpointedProcess);
      assertTrue(machine.inspect(second.pid()) instanceof RunningProcess);
      assertEquals(JobState.JOB_STATE_SAVED, client.state(POD));
      assertEquals(JobState.JOB_STATE_RUNNING, client.state("trainer"));
      done(client.snapshot("trainer"));
      done(client.restore("trainer"));
      done(client.restore(POD));
      assertEquals(101, first.increment());
      assertEquals(101, second.increment());
    }
  }

  @Test
  void findsSuspendedJobsAfterARestart(Counter counter) throws IOException {
    done(client.snapshot("job-a", counter.pid()));
    stop();
    agent = agent();
    client = new PeerClient(agent.port(), SECRET);
    assertEquals(JobState.JOB_STATE_SAVED, client.state("job-a"));
    done(client.restore("job-a"));
    assertEquals(101, counter.increment());
  }

  @Test
  void refusesWithTheCodesOfThePeer(Counter counter) {
    assertEquals(Status.Code.FAILED_PRECONDITION, refused(() -> client.snapshot("unknown")));
    assertEquals(Status.Code.FAILED_PRECONDITION, refused(() -> client.restore("unknown")));
    assertEquals(Status.Code.NOT_FOUND, refused(() -> client.operation("none")));
    assertEquals(Status.Code.INVALID_ARGUMENT, refused(() -> client.snapshot("../a")));
    assertEquals(Status.Code.INVALID_ARGUMENT, refused(() -> client.snapshot("a", 1)));
    OtherBackendConfig other = OtherBackendConfig.getDefaultInstance();
    assertEquals(
        Status.Code.FAILED_PRECONDITION,
        refused(
            () -> client.snapshot("a", BackendConfig.newBuilder().setDirectMemory(other).build())));
    assertEquals(
        Status.Code.UNIMPLEMENTED,
        refused(
            () -> client.snapshot("a", BackendConfig.newBuilder().setAppEndpoint(other).build())));
    assertEquals(101, counter.increment());
  }

  @Test
  void refusesASecondOperationOnAJob(Counter counter, SimulatedDriver driver) {
    driver.faults(Fault.in("cuCheckpointProcessLock").hangs());
    String first = client.snapshot("job-a", counter.pid());
    assertEquals(JobState.JOB_STATE_TRANSITIONING, client.state("job-a"));
    assertEquals(Status.Code.ABORTED, refused(() -> client.restore("job-a")));
    assertEquals(OperationStatus.OPERATION_STATUS_PENDING, client.operation(first).getStatus());
    driver.clearFaults();
    done(first);
    done(client.restore("job-a"));
    assertEquals(101, counter.increment());
  }

  @Test
  void reportsAFailedOperation(Counter counter, SimulatedDriver driver) throws Exception {
    driver.faults(Fault.in("cuCheckpointProcessLock").answers(600));
    GetOperationResponse failed = client.ended(client.snapshot("job-a", counter.pid()));
    driver.clearFaults();
    assertEquals(OperationStatus.OPERATION_STATUS_FAILED, failed.getStatus());
    assertTrue(failed.getError().contains("" + counter.pid()), failed::getError);
    assertEquals(101, counter.increment());
    assertEquals(JobState.JOB_STATE_RUNNING, client.state("job-a"));
    String metrics = get("/metrics").body();
    assertTrue(
        metrics.contains("gpuprocess_pod_checkpoint_operations_total{result=\"failure\"} 1.0"),
        metrics);
  }

  @Test
  void wantsTheToken(Counter counter) throws IOException {
    try (PeerClient none = new PeerClient(agent.port(), null);
        PeerClient wrong = new PeerClient(agent.port(), SECRET + "x")) {
      assertEquals(
          Status.Code.UNAUTHENTICATED, refused(() -> none.snapshot("job-a", counter.pid())));
      assertEquals(Status.Code.UNAUTHENTICATED, refused(wrong::status));
      assertEquals(Status.Code.UNAUTHENTICATED, refused(wrong::groups));
      assertEquals(ServingStatus.SERVING, none.health(""));
      assertEquals(ServingStatus.SERVING, none.health("cuda"));
      assertEquals(Status.Code.NOT_FOUND, refused(() -> none.health("other")));
      assertEquals(0, client.status().getJobStatusesCount());
      // A new token is used at once.
      Files.writeString(token, SECRET + "x");
      assertEquals(0, wrong.status().getJobStatusesCount());
      assertEquals(Status.Code.UNAUTHENTICATED, refused(client::status));
      Files.setPosixFilePermissions(token, PosixFilePermissions.fromString("rw-r-----"));
      assertEquals(Status.Code.UNAVAILABLE, refused(wrong::status));
      assertThrows(IOException.class, this::agent);
    }
  }

  @Test
  void encryptsTheConnection() throws Exception {
    Agent.Tls tls = certificate();
    try (Agent encrypted = agent(tls);
        PeerClient plain = new PeerClient(encrypted.port(), SECRET);
        PeerClient trusting = new PeerClient(encrypted.port(), SECRET, tls.certificate())) {
      assertEquals(0, trusting.status().getJobStatusesCount());
      assertEquals(Status.Code.UNAVAILABLE, refused(plain::status));
    }
    Files.setPosixFilePermissions(tls.key(), PosixFilePermissions.fromString("rw-r-----"));
    assertThrows(IOException.class, () -> agent(tls));
  }

  /** A certificate of localhost by the JDK's keytool. */
  private Agent.Tls certificate() throws Exception {
    Path store = directory.resolve("store.p12");
    Process keytool =
        new ProcessBuilder(
                (Path.of(System.getProperty("java.home"), "bin", "keytool")
                        + " -genkeypair -alias a -keyalg EC -dname CN=localhost -ext san=dns:localhost"
                        + " -storetype PKCS12 -storepass secret -keystore "
                        + store)
                    .split(" "))
            .inheritIO()
            .start();
    assertEquals(0, keytool.waitFor());
    char[] password = "secret".toCharArray();
    KeyStore keys = KeyStore.getInstance(store.toFile(), password);
    return new Agent.Tls(
        pem("CERTIFICATE", keys.getCertificate("a").getEncoded()),
        pem("PRIVATE KEY", keys.getKey("a", password).getEncoded()));
  }

  private Path pem(String kind, byte[] content) throws IOException {
    Path file =
        Files.writeString(
            directory.resolve(kind + ".pem"),
            "-----BEGIN %1$s-----%n%2$s%n-----END %1$s-----%n"
                .formatted(kind, Base64.getMimeEncoder().encodeToString(content)));
    return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
  }

  @Test
  void servesHealthOverHttp() throws Exception {
    assertEquals(200, get("/healthz").statusCode());
    assertEquals(200, get("/readyz").statusCode());
    assertEquals(404, get("/").statusCode());
  }

  /** The kubelet restarts an agent whose {@code /healthz} does not answer. */
  @Test
  void silentConnectionsDoNotStopHealth() throws Exception {
    List<Socket> silent = new ArrayList<>();
    try {
      for (int i = 0; i < 400; i++) {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), agent.httpPort());
        silent.add(socket);
        socket.getOutputStream().write('G');
      }
      assertEquals(200, get("/healthz").statusCode());
      assertEquals(200, get("/readyz").statusCode());
      assertTrue(metrics().contains("gpuprocess_suspended_processes"));
      for (Socket each : silent) {
        each.setSoTimeout((int) PATIENCE.toMillis());
        assertTrue(isClosed(each));
      }
    } finally {
      for (Socket each : silent) {
        each.close();
      }
    }
  }

  private static boolean isClosed(Socket socket) throws IOException {
    try {
      return socket.getInputStream().read() < 0;
    } catch (SocketException e) {
      return true; // reset
    }
  }

  /** An inventory that blocks while it is closed, as that of a driver that hangs. */
  private static final class Gate implements GpuInventory {

    private final GpuInventory inventory;
    private final ReadWriteLock lock = new ReentrantReadWriteLock();

    Gate(GpuInventory inventory) {
      this.inventory = inventory;
    }

    @Override
    public Optional<List<Gpu>> gpus() {
      lock.readLock().lock();
      try {
        return inventory.gpus();
      } finally {
        lock.readLock().unlock();
      }
    }

    @Override
    public Optional<String> driverVersion() {
      return inventory.driverVersion();
    }
  }

  @Test
  void clientsWithoutTheTokenTakeNoThreads() throws Exception {
    Gate gate = new Gate(machine.gpus());
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    try (Agent slow = agent(machine.toBuilder().cuda(machine.cuda(), gate).build(), null);
        PeerClient stranger = PeerClient.withoutThreads(slow.port());
        PeerClient known = new PeerClient(slow.port(), SECRET)) {
      List<ListenableFuture<HealthCheckResponse>> checks = new ArrayList<>();
      gate.lock.writeLock().lock();
      try {
        threads.resetPeakThreadCount();
        for (int i = 0; i < 2000; i++) {
          checks.add(stranger.beginHealth());
        }
        for (ListenableFuture<HealthCheckResponse> each : checks) {
          assertEquals(ServingStatus.SERVING, each.get().getStatus());
        }
        assertEquals(Status.Code.UNAUTHENTICATED, refused(stranger::status));
      } finally {
        gate.lock.writeLock().unlock();
      }
      assertTrue(known.status().getAcceleratorStatusesCount() > 0);
      assertTrue(threads.getPeakThreadCount() < 200, () -> "" + threads.getPeakThreadCount());
    }
  }

  @Test
  void callsThatWaitDoNotStopOthers(Counter first, SimulatedDriver driver) throws Exception {
    try (Counter second = driver.start(Counter.launch())) {
      inTwoPods(first, second);
      assertTrue(client.acquire("group", "first").getSuccess());
      List<ListenableFuture<AcquireResponse>> waiting = new ArrayList<>();
      for (int i = 0; i < CallThreads.PER_CONNECTION; i++) {
        waiting.add(client.beginAcquire("group", "second"));
      }
      int refused = CallThreads.PER_CONNECTION - CallThreads.WAITING;
      assertTrue(
          Await.until(PATIENCE, () -> waiting.stream().filter(Future::isDone).count() == refused));
      assertTrue(
          Await.until(PATIENCE, () -> client.group("group").getGroup().getWaiterQueueDepth() == 1));
      assertEquals(1, client.yieldTurn("group", "first").getPendingWaiters());
      List<Status.Code> codes = new ArrayList<>();
      for (ListenableFuture<AcquireResponse> each : waiting) {
        try {
          assertTrue(each.get().getSuccess());
          codes.add(Status.Code.OK);
        } catch (ExecutionException e) {
          codes.add(Status.fromThrowable(e).getCode());
        }
      }
      assertEquals(refused, Collections.frequency(codes, Status.Code.RESOURCE_EXHAUSTED));
      assertEquals(CallThreads.WAITING, Collections.frequency(codes, Status.Code.OK));
      assertEquals(101, second.increment());
    }
  }

  @Test
  void firstCallsOfAGroupOpenItOnce(Counter counter) throws Exception {
    inPod(counter.pid(), POD, "first");
    for (int i = 0; i < 5; i++) {
      String group = "group-" + i;
      List<ListenableFuture<AcquireResponse>> calls = new ArrayList<>();
      for (int k = 0; k < 8; k++) {
        calls.add(client.beginAcquire(group, "first"));
      }
      for (ListenableFuture<AcquireResponse> each : calls) {
        assertTrue(each.get().getSuccess());
      }
      assertTrue(client.yieldTurn(group, "first").getSuccess());
    }
    assertEquals(101, counter.increment());
  }

  @Test
  void jobsTakeTurns(Counter first, SimulatedDriver driver) throws IOException {
    try (Counter second = driver.start(Counter.launch())) {
      inTwoPods(first, second);
      assertEquals(
          Status.Code.FAILED_PRECONDITION, refused(() -> client.acquire("group", "unknown")));
      assertEquals(List.of(), client.groups());
      assertFalse(client.acquire("group", "first").getContextRestored());
      CompletableFuture<Boolean> waiting =
          CompletableFuture.supplyAsync(
              () -> client.acquire("group", "second").getContextRestored());
      assertTrue(
          Await.until(PATIENCE, () -> client.group("group").getGroup().getWaiterQueueDepth() == 1));
      GroupStatus locked = client.group("group").getGroup();
      assertEquals("first", locked.getLockingJob());
      assertEquals(GroupStatus.State.STATE_LOCKED, locked.getGroupState());
      assertEquals(2, client.group("group").getAgentJobStatesCount());
      assertEquals("node-1", client.group("group").getAgentJobStates(0).getAgent());
      assertEquals(
          Status.Code.PERMISSION_DENIED, refused(() -> client.yieldTurn("group", "second")));
      assertEquals(101, first.increment());
      var yielded = client.yieldTurn("group", "first");
      assertEquals(1, yielded.getPendingWaiters());
      assertFalse(yielded.getSnapshotDeferred());
      assertTrue(waiting.join());
      assertEquals(101, second.increment());
      assertTrue(client.yieldTurn("group", "second").getSnapshotDeferred());
      assertEquals(
          GroupStatus.State.STATE_IDLE_YIELDED, client.group("group").getGroup().getGroupState());
      assertEquals(102, second.increment());
      assertEquals(List.of("group"), client.groups());
      assertEquals(Status.Code.NOT_FOUND, refused(() -> client.group("other")));
      assertEquals(Status.Code.INVALID_ARGUMENT, refused(() -> client.acquire("../g", "first")));
    }
  }

  @Test
  void aTurnGoesOnWhenTheAgentIsStartedAgain(Counter first, SimulatedDriver driver)
      throws IOException {
    try (Counter second = driver.start(Counter.launch())) {
      inTwoPods(first, second);
      assertTrue(client.acquire("group", "first").getSuccess());
      stop();
      agent = agent();
      client = new PeerClient(agent.port(), SECRET);

      assertEquals(
          Status.Code.FAILED_PRECONDITION, refused(() -> client.yieldTurn("group", "unknown")));
      assertEquals(
          Status.Code.PERMISSION_DENIED, refused(() -> client.yieldTurn("group", "second")));
      assertTrue(client.yieldTurn("group", "first").getSuccess());
      assertTrue(client.acquire("group", "second", Duration.ofSeconds(30)).getSuccess());
      assertEquals(101, second.increment());
    }
  }

  @Test
  void aDeadlineEndsTheWaitForATurn(Counter first, SimulatedDriver driver) throws IOException {
    try (Counter second = driver.start(Counter.launch())) {
      inTwoPods(first, second);
      assertTrue(client.acquire("group", "first").getSuccess());
      assertEquals(
          Status.Code.DEADLINE_EXCEEDED,
          refused(() -> client.acquire("group", "second", Duration.ofSeconds(12))));
      assertTrue(
          Await.until(PATIENCE, () -> client.group("group").getGroup().getWaiterQueueDepth() == 0));
      assertEquals(101, first.increment());
      assertTrue(client.yieldTurn("group", "first").getSnapshotDeferred());
      assertTrue(client.acquire("group", "second").getContextRestored());
      assertEquals(101, second.increment());
    }
  }

  @Test
  @RequiresCriu
  void keepsImagesOnAVolume(Counter counter) throws Exception {
    String service = "gpuprocess.agent.v1.ImageService/";
    assertEquals(101, counter.increment());
    DumpRequest.Builder request =
        DumpRequest.newBuilder().setJobId("job-a").addPids((int) counter.pid());
    Image first = dump(service, request.setLeaveRunning(true).build(), PATIENCE);
    assertEquals(102, counter.increment());
    Image second = dump(service, request.setLeaveRunning(false).build(), PATIENCE);
    assertFalse(counter.isAlive());
    // The retention keeps one.
    ListImagesRequest list = ListImagesRequest.newBuilder().setJobId("job-a").build();
    assertTrue(
        Await.until(
            PATIENCE,
            () ->
                client
                    .call(service + "List", list, ListImagesResponse.getDefaultInstance(), PATIENCE)
                    .getImagesList()
                    .equals(List.of(second))));
    assertFalse(Files.exists(directory.resolve("images/job-a").resolve(first.getName())));
    assertTrue(
        Await.until(PATIENCE, () -> metrics().contains("gpuprocess_images_removed_total 1.0")));
    RestoreImageRequest.Builder restore = RestoreImageRequest.newBuilder().setJobId("job-a");
    assertEquals(
        Status.Code.NOT_FOUND,
        refused(
            () ->
                client.call(
                    service + "Restore",
                    restore.setName("none").build(),
                    RestoredJob.getDefaultInstance(),
                    PATIENCE)));
    RestoredJob restored =
        client.call(
            service + "Restore",
            restore.setName("").build(),
            RestoredJob.getDefaultInstance(),
            PATIENCE);
    assertEquals(counter.pid(), restored.getPid());
    assertEquals(103, counter.increment());
    assertEquals(JobState.JOB_STATE_RUNNING, client.state("job-a"));
  }

  /** The deadline of the call ends the dump, and the process continues. */
  @Test
  @RequiresCriu
  void aDeadlineCancelsADump(Counter counter, SimulatedDriver driver) {
    driver.faults(Fault.in("cuCheckpointProcessLock").hangs());
    DumpRequest request =
        DumpRequest.newBuilder().setJobId("job-a").addPids((int) counter.pid()).build();
    assertEquals(
        Status.Code.DEADLINE_EXCEEDED,
        refused(() -> dump("gpuprocess.agent.v1.ImageService/", request, Duration.ofSeconds(12))));
    driver.clearFaults();
    assertTrue(
        Await.until(
            PATIENCE,
            () ->
                metrics()
                    .contains(
                        "gpuprocess_pod_checkpoint_operations_total{result=\"failure\"} 1.0")));
    assertTrue(counter.isAlive());
    assertEquals(101, counter.increment());
    NativeCalls.awaitNoneLeftBehind();
  }

  private Image dump(String service, DumpRequest request, Duration deadline) {
    return client.call(service + "Dump", request, Image.getDefaultInstance(), deadline);
  }

  private String metrics() {
    try {
      return get("/metrics").body();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
