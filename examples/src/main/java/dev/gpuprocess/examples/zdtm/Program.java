package dev.gpuprocess.examples.zdtm;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A compiled test program, with what the {@code .desc} file beside it says.
 *
 * @param file the program
 * @param description its entries, such as {@code flags}; empty without such a file
 */
record Program(Path file, Map<String, String> description) {

  private static final Pattern ENTRY = Pattern.compile("'(\\w+)'\\s*:\\s*(['\"])(.*?)\\2");

  /** Tests that CRIU is expected to fail, or that nobody runs unasked. */
  private static final Set<String> LEFT_OUT = Set.of("crfail", "noauto", "reqrst", "crlib");

  /**
   * Finds the programs of a directory: what can be executed and has no ending.
   *
   * @param names only these; all when empty
   */
  static List<Program> in(Path directory, List<String> names) throws IOException {
    List<Program> programs = new ArrayList<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory)) {
      for (Path file : files) {
        String name = file.getFileName().toString();
        if (Files.isRegularFile(file)
            && Files.isExecutable(file)
            && !name.contains(".")
            && (names.isEmpty() || names.contains(name))) {
          programs.add(new Program(file.toAbsolutePath(), read(file)));
        }
      }
    }
    programs.sort((a, b) -> a.name().compareTo(b.name()));
    return programs;
  }

  private static Map<String, String> read(Path file) throws IOException {
    Path described = file.resolveSibling(file.getFileName() + ".desc");
    Map<String, String> entries = new LinkedHashMap<>();
    if (Files.exists(described)) {
      Matcher entry = ENTRY.matcher(Files.readString(described, StandardCharsets.UTF_8));
      while (entry.find()) {
        entries.put(entry.group(1), entry.group(3));
      }
    }
    return Map.copyOf(entries);
  }

  String name() {
    return file.getFileName().toString();
  }

  /** The words of some entries, in order. */
  List<String> words(String... entries) {
    List<String> words = new ArrayList<>();
    for (String entry : entries) {
      words.addAll(List.of(description.getOrDefault(entry, "").split("\\s+")));
    }
    words.removeIf(String::isEmpty);
    return words;
  }

  /**
   * Checks that it is a subject here.
   *
   * @throws NotHereException when it is not
   */
  void requireHere() throws NotHereException {
    List<String> flavors = words("flavor");
    if (!flavors.isEmpty() && !flavors.contains("h")) {
      throw new NotHereException("runs in namespaces that zdtm.py sets up");
    }
    if (Files.exists(file.resolveSibling(name() + ".hook"))) {
      throw new NotHereException("needs hooks of zdtm.py");
    }
    List<String> architectures = words("arch");
    if (!architectures.isEmpty() && !architectures.contains("x86_64")) {
      throw new NotHereException("is for " + String.join(", ", architectures));
    }
    for (String flag : words("flags")) {
      if (LEFT_OUT.contains(flag)) {
        throw new NotHereException("is marked " + flag);
      }
    }
  }
}
