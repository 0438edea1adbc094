package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Where one test program is tried in one flavor: clean, with a root directory if it needs one, and
 * what the program and CRIU have to be told of that.
 */
final class ProgramEnvironment implements AutoCloseable {

  /** CRIU cannot dump the processes of others without this capability, which containers lack. */
  private static final boolean OTHER_USERS = Capabilities.has(Capabilities.SYS_RESOURCE);

  private final Stage stage;
  private final Program program;
  private final Flavor flavor;
  private final @Nullable Root root;

  private final List<String> devices;

  private ProgramEnvironment(Stage stage, Program program, Flavor flavor, @Nullable Root root)
      throws FailedException {
    this.devices = Devices.names();
    this.stage = stage;
    this.program = program;
    this.flavor = flavor;
    this.root = root;
  }

  /**
   * Prepares it.
   *
   * @throws NotHereException when it needs something that is not installed
   */
  static ProgramEnvironment prepare(Stage stage, Program program, Flavor flavor)
      throws IOException, FailedException, NotHereException {
    stage.removeLeftovers();
    Root root = flavor == Flavor.HOST ? null : Root.of(stage, program);
    // Programs that change their user write their results here.
    Files.setPosixFilePermissions(stage.programs(), PosixFilePermissions.fromString("rwxrwxrwx"));
    return new ProgramEnvironment(stage, program, flavor, root);
  }

  /** The command that starts the program. */
  Command command() {
    Map<String, String> environment = new HashMap<>();
    environment.put("ZDTM_THREAD_BOMB", "5");
    if (!program.has("suid") && OTHER_USERS) {
      environment.put("ZDTM_UID", "18943");
      environment.put("ZDTM_GID", "58467");
      environment.put("ZDTM_GROUPS", "27495 48244");
    }
    if (root == null) {
      return new Command(program.command(), stage.programs(), Map.copyOf(environment));
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
    return new Command(program.command(), inside, Map.copyOf(environment));
  }

  /** To be called when the program runs. */
  void started() throws IOException {
    if (root != null) {
      root.hide();
    }
  }

  /** Whether the program has namespaces of its own. */
  boolean hasNamespaces() {
    return root != null;
  }

  /** The options of CRIU for the dump. */
  List<String> dumpOptions() {
    List<String> words = new ArrayList<>(program.words("opts", "dopts"));
    if (root != null) {
      words.addAll(List.of("--external", "mnt[/dev]:ZDTM_DEV"));
    }
    return List.copyOf(words);
  }

  /** The options of CRIU for the restore. */
  List<String> restoreOptions() {
    List<String> words = new ArrayList<>(program.words("opts", "ropts"));
    if (root != null) {
      words.addAll(List.of("--root", root.directory().toString()));
      words.addAll(List.of("--external", "mnt[ZDTM_DEV]:" + root.devices()));
    }
    return List.copyOf(words);
  }

  /**
   * A new directory for directories of images, as deep as {@code zdtm.py} makes it: an option of a
   * program counts on that.
   */
  Path newImages(int pid) throws IOException {
    Path images = stage.test().resolve("dump").resolve(Stage.PROGRAMS).resolve(program.name());
    return Files.createDirectories(images.resolve(Integer.toString(pid)));
  }

  @Override
  public void close() throws FailedException {
    if (root != null) {
      root.close();
    }
    Mounts.unmountBelow(stage.test());
    Devices.removeAllBut(devices);
    Command.in(stage.test(), "rm", "-rf", "--one-file-system", "dump").succeed();
  }
}
