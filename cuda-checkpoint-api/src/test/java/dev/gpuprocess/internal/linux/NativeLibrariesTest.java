package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.cuda.LibCuda;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The directory from which JNR loads native code. */
class NativeLibrariesTest {

  @TempDir Path directory;
  private Path shared;

  /** With the permissions of {@code /tmp}. */
  @BeforeEach
  void makeSharedDirectory() throws IOException {
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
    shared = Files.createDirectory(directory.resolve("shared"));
    Files.setAttribute(shared, "unix:mode", 01777);
  }

  /** Loads the driver of a machine without one, and prints where jffi's library came from. */
  public static final class Child {
    private Child() {}

    /** In a JVM of its own. */
    public static void main(String[] arguments) throws IOException {
      try {
        LibCuda.in(Path.of("/nowhere")).version();
      } catch (MachineUnfitException e) {
        if (e.reason() != MachineUnfitException.Reason.NO_CUDA_DRIVER) {
          throw e;
        }
        NativeLibraries.prepare();
      }
      try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
        maps.filter(line -> line.contains("jffi") && line.contains(".so"))
            .map(line -> line.substring(line.indexOf('/')))
            .distinct()
            .forEach(System.out::println);
      }
      System.out.println("set: " + System.getProperty("jffi.extract.dir"));
    }
  }

  private List<String> child(String before, String... flags)
      throws IOException, InterruptedException {
    return child(List.of("sh"), before, flags);
  }

  private List<String> child(List<String> shell, String before, String... flags)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(shell);
    command.addAll(
        List.of(
            "-c",
            before + "; exec \"$@\"",
            "sh",
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Djava.io.tmpdir=" + shared,
            "-Duser.home=" + directory));
    command.addAll(List.of(flags));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), Child.class.getName()));
    Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    List<String> said = process.inputReader(StandardCharsets.UTF_8).lines().toList();
    assertTrue(process.waitFor(30, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue(), said::toString);
    return said;
  }

  private static List<String> entries(Path place) throws IOException {
    try (Stream<Path> all = Files.list(place)) {
      return all.map(Path::toString).toList();
    }
  }

  @Test
  @OutsideUse("D1")
  void jffiIsLoadedFromAPrivateDirectory() throws IOException, InterruptedException {
    List<String> said = child("umask 0");
    assertTrue(said.get(0).startsWith(shared + "/gpuprocess-native-"), said::toString);
    assertEquals("set: null", said.get(1), "the property is set only during the load");
    assertEquals(List.of(), entries(shared), "nothing is left");
  }

  @Test
  @OutsideUse("D1")
  void jffiIsLoadedFromElsewhereIfTemporaryFilesCannotBeExecuted()
      throws IOException, InterruptedException {
    assumeTrue(
        new ProcessBuilder("unshare", "--mount", "true").start().waitFor() == 0,
        "mounts of its own need root");
    String mount = "mount -t tmpfs -o noexec,mode=1777 none " + shared;
    List<String> said = child(List.of("unshare", "--mount", "sh"), mount + " || exit 1; umask 0");
    assertTrue(said.get(0).startsWith(directory + "/gpuprocess-native-"), said::toString);
  }

  @Test
  void aPropertyOfTheUserIsUsed() throws IOException, InterruptedException {
    Path own = Files.createDirectory(directory.resolve("own"));
    List<String> said = child("umask 077", "-Djffi.extract.dir=" + own);
    assertTrue(said.get(0).startsWith(own + "/jffi"), said::toString);
    assertEquals("set: " + own, said.get(1));
  }

  @Test
  @OutsideUse("D1")
  void aDirectoryThatOthersCanReplaceIsNotUsed() throws IOException {
    Map<String, Boolean> usable = new TreeMap<>();
    for (int mode : new int[] {0700, 0755, 0777, 01777}) {
      Files.setAttribute(shared, "unix:mode", mode);
      Optional<PrivateDirectory> made = PrivateDirectory.in(shared.toString());
      usable.put(Integer.toOctalString(mode), made.isPresent());
      if (made.isPresent()) {
        assertEquals(
            "rwx------",
            PosixFilePermissions.toString(Files.getPosixFilePermissions(made.get().path())));
        made.get().delete();
      }
      assertEquals(List.of(), entries(shared));
    }
    assertEquals(Map.of("700", true, "755", true, "777", false, "1777", true), usable);
    assertEquals(Optional.empty(), PrivateDirectory.in("/proc"));
    assertEquals(Optional.empty(), PrivateDirectory.in("/nowhere"));
    assertEquals(Optional.empty(), PrivateDirectory.in("/odd\0name"));
  }

  /** Every library is bound by one class. */
  @Test
  @OutsideUse("D1")
  void noOtherClassBindsLibraries() throws IOException {
    Path root = Path.of(System.getProperty("gpuprocess.root", "..")).toAbsolutePath();
    List<String> found = new ArrayList<>();
    for (String module : List.of("cuda-checkpoint-api", "criu-driver")) {
      try (Stream<Path> sources = Files.walk(root.resolve(module).resolve("src/main/java"))) {
        for (Path source : sources.filter(path -> path.toString().endsWith(".java")).toList()) {
          String text = Files.readString(source);
          boolean binds =
              text.contains("LibraryLoader.create") || text.contains("POSIXFactory.getNative");
          if (binds && !text.contains("NativeLibraries")) {
            found.add(source.toString());
          }
        }
      }
    }
    assertEquals(List.of(), found);
  }
}
