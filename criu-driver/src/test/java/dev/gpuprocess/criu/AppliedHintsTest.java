package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreReport;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The options that a refusal names, set as they are written, let the same verb succeed. */
@Tag("slow")
class AppliedHintsTest {

  private static final Pattern OPTION = Pattern.compile("CriuOptions\\.set\\(\"([^\"]+)\"\\)");

  @TempDir Path directory;

  /** The options that refusals have named, in the order in which they did. */
  private final Set<String> options = new LinkedHashSet<>();

  private int attempts;

  @BeforeEach
  void find() {
    RealCriu.assume();
  }

  private void set(CriuOptions.Builder builder) {
    options.forEach(builder::set);
  }

  /** Repeats a verb, each time with the options that its refusal names, until it succeeds. */
  private <T> T cured(Supplier<T> verb) {
    while (true) {
      attempts++;
      try {
        return verb.get();
      } catch (CriuException refused) {
        Set<String> named =
            OPTION
                .matcher(String.valueOf(refused.getMessage()))
                .results()
                .map(found -> found.group(1))
                .collect(Collectors.toCollection(LinkedHashSet::new));
        assertTrue(options.addAll(named), () -> "it names no other option: " + refused);
      }
    }
  }

  private String file() {
    return directory.resolve("file").toString();
  }

  private void hold(Workload workload, String what) {
    String held = workload.ask(what.replace("FILE", file()));
    assumeFalse(held.startsWith("error"), () -> what + ": " + held);
  }

  /** The image remembers the options, so the restore needs none. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "lock FILE",
        "flock FILE",
        "tcp",
        "tcp-pending",
        "deleted FILE 3000000",
        "renamed FILE",
        "unix-send FILE",
        "unix-to FILE"
      })
  void refusalOfADump(String what) throws IOException {
    options.add("ghost-limit=1000000");
    try (SimulatedDriver machine = SimulatedDriver.builder().memory(1L << 30).create();
        Counter counter = Counter.start(machine);
        Workload outside = Workload.idle();
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      if (what.startsWith("unix-send")) {
        hold(outside, "unix-bind FILE");
      } else if (what.startsWith("unix-to")) {
        server.bind(UnixDomainSocketAddress.of(file()));
      }
      hold(counter, what);
      Optional<SocketChannel> accepted =
          what.startsWith("unix-to") ? Optional.of(server.accept()) : Optional.empty();
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(machine.stateDirectory())
              .build();
      ProcessImage image =
          cured(() -> with(checkpoints).process(counter.pid()).dump(directory.resolve("image")));
      assertNotEquals(1, attempts, "nothing was refused");
      ProcessImage opened = checkpoints.open(image.directory());
      opened.restore().resume();
      assertEquals(101, counter.increment());
      if (accepted.isPresent()) {
        accepted.get().close();
        server.accept().close(); // the restored process is connected again
      }
    }
  }

  private GpuCheckpoints with(GpuCheckpoints checkpoints) {
    CriuOptions.Builder builder = CriuOptions.builder();
    set(builder);
    return checkpoints.toBuilder().criuOptions(builder.build()).build();
  }

  /** Without the preflight, and for images whose options are not known. */
  @ParameterizedTest
  @ValueSource(
      strings = {"lock FILE", "tcp", "deleted FILE 3000000", "renamed FILE", "unix-send FILE"})
  void errorOfCriu(String what) {
    options.add("ghost-limit=1000000");
    RpcCriuDriver criu = new RpcCriuDriver();
    try (Workload outside = Workload.idle();
        Workload idle = Workload.idle()) {
      if (what.startsWith("unix-send")) {
        hold(outside, "unix-bind FILE");
      }
      hold(idle, what);
      ProcessIdentity identity = ProcessIdentity.of(idle.pid()).orElseThrow();
      DumpDirectories site = cured(() -> dumped(criu, identity));
      assertNotEquals(1, attempts, "CRIU has refused nothing");
      options.clear();
      RestoreReport restored = cured(() -> restored(site, identity.pid()));
      assertEquals(idle.pid(), restored.process().pid());
      assertFalse(idle.ask("nothing").startsWith("error"));
    }
  }

  private DumpDirectories dumped(RpcCriuDriver criu, ProcessIdentity process) {
    DumpDirectories site = DumpDirectories.in(directory.resolve("site" + attempts), criu);
    site.dump(process, DumpDirectories.dump().criu(this::set).build());
    return site;
  }

  /** A parent may reap late what a dump, or a restore that failed, has left. */
  private RestoreReport restored(DumpDirectories site, int pid) {
    dev.gpuprocess.contract.Workload.await(() -> ProcFs.stat(pid).isEmpty(), "the pid to be free");
    return site.restore(
        pid, RestoreOptions.builder().criu(this::set).deadline(DumpDirectories.PATIENCE).build());
  }

  @Test
  void fileThatHasChanged_isPutBack() throws IOException {
    Path file = Files.writeString(directory.resolve("file"), "1234");
    RpcCriuDriver criu = new RpcCriuDriver();
    try (Workload idle = Workload.idle()) {
      hold(idle, "open FILE");
      ProcessIdentity identity = ProcessIdentity.of(idle.pid()).orElseThrow();
      DumpDirectories site = dumped(criu, identity);
      Files.writeString(file, "123");
      CriuException refused =
          assertThrows(CriuException.class, () -> restored(site, identity.pid()));
      assertTrue(
          String.valueOf(refused.getMessage()).contains("put the old version back"),
          refused::toString);
      Files.writeString(file, "1234");
      RestoreReport unused = restored(site, identity.pid());
      assertFalse(idle.ask("nothing").startsWith("error"));
    }
  }

  /** A limit of open files, as of a service, is that of CRIU too. */
  @Test
  void limitOfOpenFiles_isRaised() {
    String limited = "#!/bin/sh\nulimit -n 64\nexec %s \"$@\"\n";
    Path poor =
        FakeCriu.write(
            directory.resolve("poor").resolve("criu"),
            limited.formatted(RealCriu.command().get(0)));
    try (Workload idle = Workload.idle()) {
      ProcessIdentity identity = ProcessIdentity.of(idle.pid()).orElseThrow();
      DumpDirectories site = dumped(new RpcCriuDriver(), identity);
      CriuException refused =
          assertThrows(
              CriuException.class,
              () -> restored(site.with(new RpcCriuDriver(poor)), identity.pid()));
      assertTrue(
          String.valueOf(refused.getMessage()).contains("raise the hard limit of the JVM"),
          refused::toString);
      RestoreReport unused = restored(site, identity.pid());
      assertFalse(idle.ask("nothing").startsWith("error"));
    }
  }

  /** As of a program whose output another one reads. */
  @Test
  void pipeToAnotherProcess_isReplaced() throws IOException {
    List<Process> started = new ArrayList<>();
    try (SimulatedDriver machine = SimulatedDriver.builder().memory(1L << 30).create();
        Counter counter =
            machine.start(
                Counter.launch(1),
                (command, environment) -> {
                  ProcessBuilder builder = new ProcessBuilder("setsid");
                  builder.command().addAll(command);
                  builder.environment().putAll(environment);
                  builder.redirectInput(Path.of("/dev/null").toFile());
                  builder.redirectError(ProcessBuilder.Redirect.DISCARD);
                  started.add(start(builder));
                  return started.get(0).pid();
                })) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(machine.stateDirectory())
              .build();
      ProcessImage image =
          cured(() -> with(checkpoints).process(counter.pid()).dump(directory.resolve("image")));
      assertEquals(2, options.size(), options::toString);
      assertTrue(options.stream().anyMatch(each -> each.endsWith("=/dev/null")));
      with(checkpoints).open(image.directory()).restore().resume();
      assertEquals(101, counter.increment());
    } finally {
      started.forEach(Process::destroyForcibly);
    }
  }

  private static Process start(ProcessBuilder builder) {
    try {
      return builder.start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
