package dev.gpuprocess.criu;

import static dev.gpuprocess.cuda.ProcessState.CHECKPOINTED;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageReceiver;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.criu.CuttingWire.At;
import dev.gpuprocess.criu.CuttingWire.From;
import dev.gpuprocess.cuda.jnr.LibCuda;
import dev.gpuprocess.cuda.jnr.LibNvml;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.MigrationFailedException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.PageEndpoint;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.NullUnmarked;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A process on its way to another host, when something goes wrong at each step of the way. */
@RequiresRoot("dumps what it has started")
@Timeout(180) // several JVMs or CRIUs after each other
@NullUnmarked
class MigrationFaultsTest {

  // As in the protocol.
  private static final int OFFER = 1;
  private static final int ACCEPT = 2;
  private static final int PAGES = 4;
  private static final int PAGES_END = 5;
  private static final int FILE = 6;
  private static final int DATA = 7;
  private static final int MANIFEST = 8;
  private static final int READY = 9;
  private static final int COMMIT = 10;

  private static final String HERE = "127.0.0.1";

  @TempDir Path directory;
  private SimulatedDriver machine;
  private Counter counter;
  private GpuCheckpoints sender;
  private GpuCheckpoints receiver;
  private int tried;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = SimulatedDriver.create();
    counter = Counter.launch(4).on(machine).notOurChild().start();
    sender = host("sender");
    receiver = host("receiver");
  }

  private GpuCheckpoints host(String name) {
    return GpuCheckpoints.builder()
        .cuda(LibCuda.in(machine.directory()), LibNvml.in(machine.directory()))
        .stateDirectory(directory.resolve(name))
        .build();
  }

  @AfterEach
  void end() {
    if (counter != null) {
      counter.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  private Path image() {
    return directory.resolve("image" + tried);
  }

  private static DumpOptions options(Duration deadline) {
    return DumpOptions.builder().deadline(deadline).build();
  }

  private static void migrate(CheckpointedProcess process, int port) {
    Object unused =
        process.migrate(new PageEndpoint(HERE, port), options(DumpDirectories.PATIENCE));
  }

  /** What both ends say of a migration over a network that fails. */
  private @Nullable Throwable[] tryOver(CheckpointedProcess process, At at) throws IOException {
    tried++;
    try (ImageReceiver listening =
            receiver.receiveImage(image(), new PageEndpoint(HERE, 0), DumpDirectories.PATIENCE);
        CuttingWire wire = new CuttingWire(listening.endpoint().port(), Optional.of(at))) {
      CompletableFuture<ProcessImage> arriving = CompletableFuture.supplyAsync(listening::await);
      Throwable left = null;
      try {
        migrate(process, wire.port());
      } catch (RuntimeException e) {
        left = e;
      }
      Throwable arrived = null;
      try {
        ProcessImage unused = arriving.join();
      } catch (CompletionException e) {
        arrived = e.getCause();
      }
      assertTrue(wire.happened(), at::toString);
      return new Throwable[] {left, arrived};
    }
  }

  private void assertStays(CheckpointedProcess process, At at) throws IOException {
    @Nullable Throwable[] said = tryOver(process, at);
    assertInstanceOf(MigrationFailedException.class, said[0], at::toString);
    assertTrue(said[0].getMessage().contains("stays checkpointed"), said[0].getMessage());
    assertEquals(CHECKPOINTED, sender.inspect(counter.pid()).state());
    if (at.code() == READY) {
      // The receiver has said it, and cannot know whether it was heard.
      assertInstanceOf(ImageKeptException.class, said[1], at::toString);
      assertEquals(counter.pid(), ProcessImage.open(image()).manifest().pid());
    } else {
      assertInstanceOf(MigrationFailedException.class, said[1], at::toString);
      assertFalse(Files.exists(image()), at::toString);
    }
  }

  @Test
  void processIsWholeOnOneOfTheHostsWhereverTheNetworkFails() throws IOException {
    assertEquals(101, counter.increment());
    CheckpointedProcess process = sender.process(counter.pid()).suspend();
    for (int code : new int[] {OFFER, PAGES, PAGES_END, FILE, DATA, MANIFEST}) {
      assertStays(process, new At(From.SENDER, code, false));
    }
    for (int code : new int[] {ACCEPT, PAGES, PAGES_END, READY}) {
      assertStays(process, new At(From.RECEIVER, code, false));
    }
    for (int code : new int[] {PAGES, DATA, MANIFEST}) {
      assertStays(process, new At(From.SENDER, code, true));
    }
    // Gone here, complete there, and only the last word is lost.
    At last = new At(From.SENDER, COMMIT, false);
    @Nullable Throwable[] said = tryOver(process, last);
    assertEquals(null, said[0]);
    ImageKeptException kept = assertInstanceOf(ImageKeptException.class, said[1]);
    assertTrue(counter.awaitExit(DumpDirectories.PATIENCE));
    receiver.open(kept.image()).restore().resume();
    assertEquals(102, counter.increment());
    assertTrue(counter.verify().startsWith("ok "));
    Figures.add("migration faults: network cut or altered at %d steps, 0 lost".formatted(tried));
  }

  @Test
  void whatCanBeRefusedIsRefusedBeforeTheProcessIsTouched() throws IOException {
    CheckpointedProcess process = sender.process(counter.pid()).suspend();
    MigrationFailedException nobody =
        assertThrows(MigrationFailedException.class, () -> migrate(process, 1));
    assertTrue(nobody.getMessage().contains("look at the receiver"), nobody.getMessage());

    Path full = Files.createDirectory(image());
    Files.createFile(full.resolve("file"));
    try (ImageReceiver listening =
        receiver.receiveImage(full, new PageEndpoint(HERE, 0), DumpDirectories.PATIENCE)) {
      CompletableFuture<ProcessImage> arriving = CompletableFuture.supplyAsync(listening::await);
      MigrationFailedException refused =
          assertThrows(
              MigrationFailedException.class, () -> migrate(process, listening.endpoint().port()));
      assertTrue(refused.getMessage().contains("is not empty"), refused.getMessage());
      assertThrows(CompletionException.class, arriving::join);
    }
    assertThrows(
        IllegalArgumentException.class,
        () ->
            process.migrate(
                new PageEndpoint(HERE, 1), DumpOptions.builder().leaveRunning(true).build()));
    process.resume();
    assertEquals(101, counter.increment());
  }

  @Test
  void receiverWhoSaysNothingIsWaitedForUntilTheDeadline() throws IOException {
    CheckpointedProcess process = sender.process(counter.pid()).suspend();
    try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      MigrationFailedException e =
          assertThrows(
              MigrationFailedException.class,
              () ->
                  process.migrate(
                      new PageEndpoint(HERE, silent.getLocalPort()),
                      options(Duration.ofSeconds(1))));
      assertTrue(e.getMessage().contains("stays checkpointed"), e.getMessage());
    }
    process.resume();
    assertEquals(101, counter.increment());
  }

  @Test
  void nobodyComesAndTheReceiverGivesUp() {
    try (ImageReceiver listening =
        receiver.receiveImage(image(), new PageEndpoint(HERE, 0), Duration.ofMillis(200))) {
      assertThrows(MigrationFailedException.class, listening::awaitJob);
      assertFalse(Files.exists(image()));
    }
  }
}
