package dev.gpuprocess.image;

import dev.gpuprocess.gpu.GpuUuid;
import dev.gpuprocess.options.CgroupMode;
import java.time.Instant;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * What an image holds ({@code manifest.json}).
 *
 * @param formatVersion the format of the image; {@link #FORMAT} is what this version writes and
 *     reads
 * @param created when the dump was made
 * @param pid the root of the process tree, and the pid it will have again
 * @param startTicks when it had started, in clock ticks since boot
 * @param commandLine its arguments, program first
 * @param gpuBytes what it held on each GPU, by UUID; empty where that was not known
 * @param cudaVersion what the driver supported, such as 13000
 * @param driverVersion the NVIDIA driver, such as {@code 580.159.04}; empty where not known
 * @param criuVersion the CRIU that wrote the images
 * @param kernel the kernel's release
 * @param options what a restore must know of the dump
 * @param label what the caller of the dump calls it, null where nothing was said
 * @param files every file below {@code criu}
 */
public record Manifest(
    int formatVersion,
    Instant created,
    int pid,
    long startTicks,
    List<String> commandLine,
    Map<String, Long> gpuBytes,
    int cudaVersion,
    String driverVersion,
    String criuVersion,
    String kernel,
    Options options,
    @Nullable String label,
    List<ImageFile> files) {

  /** The format that this version writes and reads. */
  public static final int FORMAT = 1;

  /** The longest label, in characters. */
  public static final int LONGEST_LABEL = 200;

  /**
   * Makes a manifest without a label.
   *
   * @param formatVersion the format of the image
   * @param created when the dump was made
   * @param pid the root of the process tree
   * @param startTicks when it had started, in clock ticks since boot
   * @param commandLine its arguments, program first
   * @param gpuBytes what it held on each GPU, by UUID
   * @param cudaVersion what the driver supported
   * @param driverVersion the NVIDIA driver
   * @param criuVersion the CRIU that wrote the images
   * @param kernel the kernel's release
   * @param options what a restore must know of the dump
   * @param files every file below {@code criu}
   * @throws IllegalArgumentException when a value cannot be
   * @throws NullPointerException when one is missing
   */
  public Manifest(
      int formatVersion,
      Instant created,
      int pid,
      long startTicks,
      List<String> commandLine,
      Map<String, Long> gpuBytes,
      int cudaVersion,
      String driverVersion,
      String criuVersion,
      String kernel,
      Options options,
      List<ImageFile> files) {
    this(
        formatVersion,
        created,
        pid,
        startTicks,
        commandLine,
        gpuBytes,
        cudaVersion,
        driverVersion,
        criuVersion,
        kernel,
        options,
        null,
        files);
  }

  /**
   * Checks that a text can be a label.
   *
   * @param label the text
   * @return the same
   * @throws IllegalArgumentException when it is blank, longer than {@value #LONGEST_LABEL}
   *     characters, or has control characters in it
   */
  public static String requireLabel(String label) {
    if (label.isBlank()
        || label.length() > LONGEST_LABEL
        || label.chars().anyMatch(Character::isISOControl)) {
      throw new IllegalArgumentException(
          "a label has 1 to %s characters and no control characters".formatted(LONGEST_LABEL));
    }
    return label;
  }

  /**
   * Checks that nothing is missing or impossible.
   *
   * @throws IllegalArgumentException when a value cannot be
   * @throws NullPointerException when one is missing
   */
  public Manifest {
    Objects.requireNonNull(created, "created");
    Objects.requireNonNull(driverVersion, "driverVersion");
    Objects.requireNonNull(criuVersion, "criuVersion");
    Objects.requireNonNull(kernel, "kernel");
    Objects.requireNonNull(options, "options");
    commandLine = List.copyOf(commandLine);
    // In order, so that one manifest is always one text.
    gpuBytes = Collections.unmodifiableMap(new TreeMap<>(gpuBytes));
    files = List.copyOf(files);
    if (label != null) {
      requireLabel(label);
    }
    if (pid <= 1 || startTicks < 0 || cudaVersion < 0) {
      throw new IllegalArgumentException(
          "an image cannot be of pid %s, started at %s, with CUDA version %s"
              .formatted(pid, startTicks, cudaVersion));
    }
    gpuBytes.forEach(
        (gpu, bytes) -> {
          if (!GpuUuid.of(gpu).text().equals(gpu) || bytes < 0) {
            throw new IllegalArgumentException(gpu + " cannot have held " + bytes + " bytes");
          }
        });
    if (files.isEmpty() || files.stream().map(ImageFile::path).distinct().count() != files.size()) {
      throw new IllegalArgumentException("the list of files is empty or names one twice");
    }
  }

  /**
   * The size of the image files.
   *
   * @return bytes
   */
  public long bytes() {
    return files.stream().mapToLong(ImageFile::bytes).sum();
  }

  /**
   * What a restore must know of the dump.
   *
   * @param shellJob whether the root did not lead its session
   * @param tcpEstablished whether connected TCP sockets were kept
   * @param tcpClose whether connected TCP sockets come back closed
   * @param externalUnixSockets whether UNIX sockets could lead outside
   * @param fileLocks whether file locks were kept
   * @param allowUprobes whether uprobes were accepted
   * @param emptyNetworkNamespace whether the network namespace comes back empty
   * @param externalMounts whether external mounts were found without being named
   * @param sharedMounts whether external mounts could be shared
   * @param masterMounts whether external mounts could be slaves
   * @param fileSystems types of file systems that were handled although CRIU does not know them
   * @param cgroups the name of a {@link CgroupMode}, empty where CRIU decided
   */
  public record Options(
      boolean shellJob,
      boolean tcpEstablished,
      boolean tcpClose,
      boolean externalUnixSockets,
      boolean fileLocks,
      boolean allowUprobes,
      boolean emptyNetworkNamespace,
      boolean externalMounts,
      boolean sharedMounts,
      boolean masterMounts,
      List<String> fileSystems,
      String cgroups) {

    private static final Pattern FILE_SYSTEM = Pattern.compile("[a-z][a-z0-9_.-]{0,31}");

    /**
     * Checks that nothing is missing or impossible.
     *
     * @throws IllegalArgumentException when a value cannot be
     */
    public Options {
      fileSystems = List.copyOf(fileSystems);
      if (fileSystems.stream().distinct().count() != fileSystems.size()
          || !fileSystems.stream().allMatch(type -> FILE_SYSTEM.matcher(type).matches())) {
        throw new IllegalArgumentException("these are no types of file systems: " + fileSystems);
      }
      if (!cgroups.isEmpty()) {
        CgroupMode unused = CgroupMode.valueOf(cgroups);
      }
    }
  }
}
