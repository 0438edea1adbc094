package dev.gpuprocess.image;

import dev.gpuprocess.cuda.GpuUuid;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;

/**
 * The machine that an image was made on, as far as its processes depend on it. Before a restore it
 * is compared with the machine of the restore. Immutable.
 *
 * @param architecture the instruction set, as Java names it, such as {@code amd64}
 * @param cpu what the CPU is called; empty where it has no name
 * @param cpuFeatures the instructions beyond the basic ones that its programs can use, as {@code
 *     /proc/cpuinfo} names them, such as {@code avx2}; in order
 * @param gpus what kind of GPU each GPU of the machine was, by UUID; empty where that was not known
 * @param files the programs and shared libraries that the processes run code of
 */
public record ImageMachine(
    String architecture,
    String cpu,
    List<String> cpuFeatures,
    Map<String, String> gpus,
    List<MappedFile> files) {

  /** The most files of which an image says that its processes need them. */
  public static final int MOST_FILES = 20_000;

  /** The longest name of a CPU or GPU, in characters. */
  public static final int LONGEST_NAME = 200;

  private static final int MOST_FEATURES = 1000;
  private static final int MOST_GPUS = 1000;
  private static final Pattern WORD = Pattern.compile("[a-z0-9_.]{1,40}");
  private static final Pattern NAME = Pattern.compile("[ -~]{0,%s}".formatted(LONGEST_NAME));

  /**
   * Checks every part.
   *
   * @throws IllegalArgumentException when a part is impossible
   */
  public ImageMachine {
    cpuFeatures = List.copyOf(cpuFeatures);
    gpus = Collections.unmodifiableMap(new TreeMap<>(gpus));
    files = List.copyOf(files);
    if (!WORD.matcher(architecture).matches() || !NAME.matcher(cpu).matches()) {
      throw new IllegalArgumentException("there is no such CPU");
    }
    if (cpuFeatures.size() > MOST_FEATURES
        || !cpuFeatures.stream().allMatch(each -> WORD.matcher(each).matches())
        || cpuFeatures.stream().distinct().count() != cpuFeatures.size()) {
      throw new IllegalArgumentException("a CPU cannot have these features");
    }
    if (gpus.size() > MOST_GPUS) {
      throw new IllegalArgumentException("a machine cannot have " + gpus.size() + " GPUs");
    }
    gpus.forEach(
        (uuid, name) -> {
          if (!GpuUuid.of(uuid).text().equals(uuid) || !NAME.matcher(name).matches()) {
            throw new IllegalArgumentException(uuid + " cannot be a GPU of that name");
          }
        });
    if (files.size() > MOST_FILES
        || files.stream().map(MappedFile::path).distinct().count() != files.size()) {
      throw new IllegalArgumentException("the mapped files are too many, or one is named twice");
    }
  }
}
