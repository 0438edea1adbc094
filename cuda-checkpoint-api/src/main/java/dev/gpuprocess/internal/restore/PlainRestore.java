package dev.gpuprocess.internal.restore;

import dev.gpuprocess.image.DumpedFile;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.internal.manifest.ManifestData;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** A restore by CRIU's command, without this library. */
public final class PlainRestore {

  /** Namespaces for which a restore needs mounts that this library describes to CRIU. */
  private static final List<String> WITH_MOUNTS = List.of("mnt", "pid");

  private PlainRestore() {}

  /**
   * Returns the command.
   *
   * @param manifest of the image
   * @param images the directory of CRIU's files
   * @param tree what they hold
   * @return the program and its arguments; empty if CRIU cannot restore the image by itself
   */
  public static Optional<List<String>> command(
      ManifestData manifest, Path images, DumpedTree tree) {
    boolean possible =
        manifest.memoryFiles().isEmpty()
            && manifest.options().plugin() == null
            && WITH_MOUNTS.stream().noneMatch(tree.namespaces()::contains)
            && !leadsTerminal(tree.root());
    if (!possible) {
      return Optional.empty();
    }
    List<String> words =
        new ArrayList<>(List.of("criu", "restore", "--restore-detached", "--images-dir"));
    // Without a directory of its own, its statistics would be a file that is not in the manifest.
    words.addAll(List.of(images.toString(), "--work-dir", "."));
    manifest.options().criu().stream()
        .filter(setting -> !setting.endsWith("=false") && !setting.endsWith("="))
        .map(PlainRestore::option)
        .forEach(words::add);
    return Optional.of(List.copyOf(words));
  }

  private static String option(String setting) {
    return setting.equals("external-mounts") ? "--external=mnt[]" : "--" + setting;
  }

  /** CRIU cannot give such a process another terminal. */
  private static boolean leadsTerminal(DumpedProcess root) {
    return root.session() == root.pid()
        && root.files().stream().anyMatch(file -> file.kind() == DumpedFile.Kind.TERMINAL);
  }
}
