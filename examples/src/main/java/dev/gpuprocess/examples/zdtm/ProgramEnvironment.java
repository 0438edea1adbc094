package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import dev.gpuprocess.internal.proc.Mount;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The place in which one test program is tried in one flavor: its root directory, if it needs one,
 * its environment variables, and the options of CRIU. Closing it removes what the program has left.
 */
final class ProgramEnvironment implements AutoCloseable {

  private final Stage stage;
  private final Program program;
  private final Flavor flavor;
  private final @Nullable Root root;

  /** The network devices from before; {@code zdtm.py} has a namespace for each program. */
  private final List<String> devices;

  private ProgramEnvironment(Stage stage, Program program, Flavor flavor, @Nullable Root root) {
    this.devices = devices();
    this.stage = stage;
    this.program = program;
    this.flavor = flavor;
    this.root = root;
  }

  /**
   * Prepares the place.
   *
   * @throws NotHereException if the program needs something that is not installed
   */
  static ProgramEnvironment prepare(Stage stage, Program program, Flavor flavor)
      throws IOException, NotHereException {
    stage.removeLeftovers();
    Root root = flavor == Flavor.HOST ? null : Root.of(stage, program);
    // Programs that change their user write their results here.
    Files.setPosixFilePermissions(stage.programs(), PosixFilePermissions.fromString("rwxrwxrwx"));
    return new ProgramEnvironment(stage, program, flavor, root);
  }

  /** Returns the command that starts the program. */
  ProgramRun command() {
    Map<String, String> environment = new HashMap<>();
    environment.put("ZDTM_THREAD_BOMB", "5");
    if (!program.has("suid") && mayRaiseLimits()) {
      environment.put("ZDTM_UID", "18943");
      environment.put("ZDTM_GID", "58467");
      environment.put("ZDTM_GROUPS", "27495 48244");
    }
    if (root == null) {
      return new ProgramRun(program.command(), stage.programs(), environment);
    }
    environment.put("ZDTM_NEWNS", "1");
    environment.put("ZDTM_ROOT", root.directory().toString());
    environment.put("ZDTM_DEV", root.devices().toString());
    environment.put("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    program.words("bind").forEach(path -> environment.put("ZDTM_BIND", path));
    if (flavor == Flavor.USER_NAMESPACE) {
      environment.put("ZDTM_USERNS", "1");
    }
    Path inside = root.directory().resolve(Stage.PROGRAMS);
    return new ProgramRun(program.command(), inside, environment);
  }

  /** Hides the root directory from other users; to be called when the program runs. */
  void started() throws IOException {
    if (root != null) {
      root.hide();
    }
  }

  /** Returns whether the program has namespaces of its own. */
  boolean hasNamespaces() {
    return root != null;
  }

  /** Returns the options of CRIU for the dump. */
  List<String> dumpOptions() {
    List<String> words = new ArrayList<>(program.words("opts", "dopts"));
    if (root != null) {
      words.addAll(List.of("--external", "mnt[/dev]:ZDTM_DEV"));
    }
    return List.copyOf(words);
  }

  /** Returns the options of CRIU for the restore. */
  List<String> restoreOptions() {
    List<String> words = new ArrayList<>(program.words("opts", "ropts"));
    if (root != null) {
      words.addAll(List.of("--root", root.directory().toString()));
      words.addAll(List.of("--external", "mnt[ZDTM_DEV]:" + root.devices()));
    }
    return List.copyOf(words);
  }

  /**
   * Makes a directory for directories of images, as deep as {@code zdtm.py} makes it, because an
   * option of a program depends on the depth.
   */
  Path newImages(int pid) throws IOException {
    Path images = stage.test().resolve("dump").resolve(Stage.PROGRAMS).resolve(program.name());
    return Files.createDirectories(images.resolve(Integer.toString(pid)));
  }

  @Override
  public void close() {
    if (root != null) {
      root.close();
    }
    unmountBelow(stage.test());
    removeNewDevices();
    ProgramRun.of("rm", "-rf", "--one-file-system", "dump").in(stage.test()).succeed();
  }

  /** Returns whether CRIU can dump processes of other users; in containers it cannot. */
  private static boolean mayRaiseLimits() {
    return Capabilities.of(ProcessHandle.current().pid()).has(Capability.SYS_RESOURCE);
  }

  private static void unmountBelow(Path directory) {
    List<Path> points =
        Mount.ours().stream()
            .map(Mount::point)
            .filter(point -> point.startsWith(directory) && !point.equals(directory))
            .collect(Collectors.toList());
    Collections.reverse(points);
    for (Path point : points) {
      ProgramRun.of("umount", "--lazy", point.toString()).in(Path.of("/")).succeed();
    }
  }

  private static List<String> devices() {
    return ProgramRun.of("ip", "-oneline", "link", "show")
        .run()
        .printed()
        .lines()
        .map(line -> line.split(": ", 3)[1].replaceFirst("@.*", ""))
        .toList();
  }

  private void removeNewDevices() {
    for (String name : devices()) {
      if (!devices.contains(name)) {
        // The removal of one end of a pair removes the other end too.
        ProgramRun.of("ip", "link", "delete", name).run();
      }
    }
  }
}
