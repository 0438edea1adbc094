package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How a process refers to a resource.
 *
 * @param pid the process
 * @param kind {@code descriptor} or {@code mapping}
 * @param handle its number or its addresses
 */
record ResourceRef(int pid, String kind, String handle) {

  static ResourceRef descriptor(int pid, int number) {
    return new ResourceRef(pid, "descriptor", Integer.toString(number));
  }

  static ResourceRef mapping(int pid, Mapping mapping) {
    return new ResourceRef(pid, "mapping", mapping.range());
  }

  /** A link to the file of a descriptor, whatever its name refers to by now. */
  Path descriptor() {
    return ProcFs.file(pid, "fd", handle);
  }

  /**
   * The first group of a pattern in the {@code fdinfo} of a descriptor; empty if it is not there.
   */
  Optional<String> fdinfo(Pattern field) {
    Matcher found = field.matcher(ProcFs.read(pid, "fdinfo/" + handle).orElse(""));
    return found.find() ? Optional.of(found.group(1)) : Optional.empty();
  }

  /**
   * The path as the process sees it, in its root directory.
   *
   * @return empty if the path has characters that this JVM cannot represent in a path
   */
  Optional<Path> seenByProcess(String path) {
    try {
      return Optional.of(NativePath.of(ProcFs.file(pid, "root") + path));
    } catch (InvalidPathException unmappable) {
      return Optional.empty();
    }
  }
}
