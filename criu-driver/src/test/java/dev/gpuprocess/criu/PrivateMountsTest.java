package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A process with a mount namespace of its own, such as a service with a private {@code /tmp} or a
 * job of Slurm, comes back without options, and its image has nothing of the host's memory.
 */
@RequiresCriu
@RequiresRoot("makes mount namespaces")
class PrivateMountsTest {

  private final String secret = UUID.randomUUID().toString();
  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void buildMachine() {
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
  }

  @AfterEach
  void removeMachine() {
    machine.close();
  }

  private Path made(String name) throws IOException {
    return Files.createDirectory(directory.resolve(name));
  }

  /** Starts a process in a mount namespace in which a shell has mounted something. */
  private Counter start(String mounts) {
    return start(mounts, "</dev/null >/dev/null 2>&1", Path.of("/dev/null"));
  }

  private Counter start(String mounts, String redirections, Path output) {
    return machine.start(
        Counter.launch(1),
        (command, environment) -> {
          List<String> all = new ArrayList<>(List.of("unshare", "--mount", "sh", "-ec"));
          all.addAll(List.of(mounts + "; exec \"$@\" " + redirections, "sh"));
          all.addAll(command);
          ProcessBuilder builder = new ProcessBuilder(all);
          builder.environment().putAll(environment);
          try {
            return builder
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(ProcessBuilder.Redirect.appendTo(output.toFile()))
                .redirectErrorStream(true)
                .start()
                .pid();
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        });
  }

  private static Path inside(Counter counter, Path path) {
    return Path.of("/proc/" + counter.pid() + "/root" + path);
  }

  /** Everything in the archives of tmpfs file systems that an image has. */
  private static String archives(ProcessImage image) throws IOException {
    StringBuilder all = new StringBuilder();
    try (Stream<Path> files = Files.walk(image.directory())) {
      for (Path file : files.filter(each -> each.toString().contains("tmpfs-")).toList()) {
        try (InputStream in = new GZIPInputStream(Files.newInputStream(file))) {
          all.append(new String(in.readAllBytes(), StandardCharsets.ISO_8859_1));
        }
      }
    }
    return all.toString();
  }

  @Test
  void processComesBackWithItsMounts_andImageHasNothingOfTheHost() throws Exception {
    Path own = made("own");
    Path bound = made("bound");
    Path source = made("source");
    Path shared = Path.of("/dev/shm", "gpuprocess-" + secret);
    Files.writeString(source.resolve("file"), "of the host");
    try (TmpFs host = TmpFs.mount(made("host"), "size=1m");
        Counter counter =
            start(
                "mount -t tmpfs own %s; echo inside > %s/file; mount --bind %s %s; mount -t tmpfs own /dev/shm; echo here > /dev/shm/file"
                    .formatted(own, own, source, bound))) {
      Files.writeString(host.point().resolve("secret"), secret);
      Files.writeString(shared, secret);
      assertEquals(101, counter.increment());
      ProcessImage image =
          checkpoints.process(counter.pid()).suspend().dump(directory.resolve("image"));
      String content = archives(image);
      assertTrue(content.contains("inside"), "the tmpfs of the process is in the image");
      assertFalse(content.contains(secret), "files of others are in the image");
      assertFalse(image.manifest().isolated());

      image.restore().resume();
      assertEquals(102, counter.increment());
      assertTrue(counter.verify().startsWith("ok"), counter::verify);
      assertEquals("inside\n", Files.readString(inside(counter, own.resolve("file"))));
      assertEquals("here\n", Files.readString(inside(counter, Path.of("/dev/shm/file"))));
      assertFalse(Files.exists(own.resolve("file")));
      assertEquals("of the host", Files.readString(inside(counter, bound.resolve("file"))));
      assertTrue(
          Files.isSameFile(
              host.point().resolve("secret"), inside(counter, host.point().resolve("secret"))));

    } finally {
      Files.deleteIfExists(shared);
    }
  }

  /** The standard files of a job of Slurm are opened before its mount namespace is made. */
  @Test
  void standardFilesFromOutside_comeBack() throws Exception {
    Path own = made("own");
    Path output = directory.resolve("output");
    Files.writeString(output, "from outside\n");
    try (Counter counter = start("mount -t tmpfs own " + own, "", output)) {
      ProcessImage image = checkpoints.process(counter.pid()).snapshot(directory.resolve("image"));
      counter.kill();
      Files.writeString(output, "more\n", StandardOpenOption.APPEND);
      image.restore().resume();
      assertEquals(101, counter.increment());
      Path descriptors = Path.of("/proc/" + counter.pid() + "/fd");
      assertTrue(Files.isSameFile(descriptors.resolve("0"), Path.of("/dev/null")));
      assertTrue(Files.isSameFile(descriptors.resolve("1"), output));
      String info = Files.readString(Path.of("/proc/" + counter.pid() + "/fdinfo/1"));
      assertTrue(info.contains("2001"), () -> "the file is open for appending: " + info);

      counter.kill();
      Files.delete(output);
      ImageException missing = assertThrows(ImageException.class, image::restore);
      assertTrue(String.valueOf(missing.getMessage()).contains("put it back"), missing::toString);
    }
  }

  /**
   * A node agent that is a service with a private directory; its processes are those of the host.
   */
  @Test
  void controllerWithMountsOfItsOwn_dumpsAndRestoresProcessesOfTheHost() throws Exception {
    List<String> namespace = new ArrayList<>(TestJvm.inPidNamespace());
    // The first process of the namespace, and not the controller.
    namespace.addAll(List.of("sh", "-c", "\"$0\" \"$@\"; exit $?"));
    TestJvm.assertEndsSaying(
        "all right", TestJvm.commandBy(namespace, Host.class, directory.toString()));
  }

  /** The host: starts a process and a controller in a mount namespace of its own. */
  static final class Host {

    private Host() {}

    /**
     * Runs the controller.
     *
     * @param args a directory
     */
    public static void main(String[] args) throws Exception {
      Path directory = Path.of(args[0]);
      Path hidden = Files.createDirectory(directory.resolve("private"));
      ProgramRun.of("mount", "-t", "tmpfs", "host", hidden.toString()).succeed();
      Files.writeString(hidden.resolve("file"), "of the host");
      try (SimulatedDriver machine = SimulatedDriver.create();
          Counter counter = Counter.start(machine)) {
        assertEquals(101, counter.increment());
        String script = "mount -t tmpfs own %s; exec \"$0\" \"$@\"".formatted(hidden);
        TestJvm.assertEndsSaying(
            "restored",
            TestJvm.commandBy(
                List.of("unshare", "--mount", "sh", "-ec", script),
                Controller.class,
                machine.directory().toString(),
                directory.toString(),
                Long.toString(counter.pid())));
        assertEquals(102, counter.increment());
        assertTrue(
            Files.isSameFile(hidden.resolve("file"), inside(counter, hidden.resolve("file"))));
        assertEquals(
            Files.readSymbolicLink(Path.of("/proc/self/ns/mnt")),
            Files.readSymbolicLink(Path.of("/proc/" + counter.pid() + "/ns/mnt")));
      }
      System.out.println("all right");
      System.exit(0);
    }
  }

  /** The controller: dumps and restores. */
  static final class Controller {

    private Controller() {}

    /**
     * Dumps and restores.
     *
     * @param args the machine, a directory, the pid
     */
    public static void main(String[] args) throws Exception {
      Path directory = Path.of(args[1]);
      ProcessImage image =
          GpuCheckpoints.builder()
              .cuda(Path.of(args[0]))
              .stateDirectory(directory.resolve("state"))
              .build()
              .process(Long.parseLong(args[2]))
              .suspend()
              .dump(directory.resolve("image"));
      assertEquals("", archives(image));
      image.restore().resume();
      System.out.println("restored");
      System.exit(0);
    }
  }
}
