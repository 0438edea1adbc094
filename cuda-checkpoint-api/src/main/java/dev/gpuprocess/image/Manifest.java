package dev.gpuprocess.image;

import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.ProcessMember;
import dev.gpuprocess.report.Step;
import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What an image says about itself, as its {@code manifest.json} records it. Immutable.
 *
 * @param formatVersion the format of the image: 1 for one of CRIU's files alone, 2 for one with
 *     memory files, 3 for one of a tree in which other processes than the root use CUDA, or none
 *     does, 4 for one that a plugin of CRIU took part in. Versions of this library that do not know
 *     a format refuse it
 * @param created when the dump was made
 * @param process the root of the process tree, with the pid it will have again; of an {@linkplain
 *     #isolated isolated} one the pid that its controller saw, while it has pid 1 inside
 * @param commandLine its arguments, program first
 * @param label the label that the dump was given; null for none
 * @param isolated whether the process has a {@linkplain
 *     dev.gpuprocess.options.LaunchOptions.Builder#isolated pid namespace of its own}, so that the
 *     image can be restored many times at once
 * @param plugin the plugin of CRIU that a restore needs, such as {@code amdgpu_plugin}; null for
 *     none
 * @param cudaVersion the CUDA version that the driver supported, such as 13000 for CUDA 13.0
 * @param driverVersion the version of the NVIDIA driver, such as {@code 580.159.04}; empty where it
 *     was not known
 * @param criuVersion the version of the CRIU that wrote the images
 * @param kernel the kernel's release
 * @param files the size of every file below {@code criu} and {@code gpu} in bytes, by its path
 *     relative to the image, such as {@code criu/pages-1.img}
 * @param members the CUDA processes of the tree, checkpointed, with the pids that they had and will
 *     have again; of an isolated process those in its own pid namespace. Their commands are empty
 * @param processes the processes of the tree, the root first, at most {@link ImageProcess#MOST};
 *     empty where they could not be read, and in images of earlier versions
 * @param steps what led into the image since the process ran, as far as the controller that made it
 *     did it, with the times of each member to the microsecond, and the pids that the controller
 *     saw; CRIU's own dump is not among them, as it ends after the image has been described. Empty
 *     in images of earlier versions
 * @param machine what else its processes depend on; null in images of earlier versions
 * @param lost the {@linkplain dev.gpuprocess.options.Attribute attributes} that the processes had
 *     and the image lacks, by name; empty in images of earlier versions
 */
public record Manifest(
    int formatVersion,
    Instant created,
    ProcessIdentity process,
    List<String> commandLine,
    @Nullable String label,
    boolean isolated,
    @Nullable String plugin,
    int cudaVersion,
    String driverVersion,
    String criuVersion,
    String kernel,
    Map<String, Long> files,
    List<ProcessMember> members,
    List<ImageProcess> processes,
    List<Step> steps,
    @Nullable ImageMachine machine,
    List<String> lost) {

  /** Copies the lists. */
  public Manifest {
    commandLine = List.copyOf(commandLine);
    files = Collections.unmodifiableMap(new LinkedHashMap<>(files));
    members = List.copyOf(members);
    processes = List.copyOf(processes);
    steps = List.copyOf(steps);
    lost = List.copyOf(lost);
  }

  /**
   * The pid of the root.
   *
   * @return as in {@link #process()}
   */
  public int pid() {
    return process.pid();
  }

  /**
   * The size of the image files.
   *
   * @return bytes
   */
  public long bytes() {
    return files.values().stream().mapToLong(Long::longValue).sum();
  }

  /**
   * The files that hold memory apart from CRIU's files.
   *
   * @return their paths, as in {@link #files()}; empty where there are none
   */
  public List<String> memoryFiles() {
    return files.keySet().stream().filter(path -> path.startsWith("gpu/")).toList();
  }
}
