package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.report.ProcessMember;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.stream.Stream;

/**
 * The bytes that a verb has moved so far, as they are seen from outside: the memory of the process
 * grows while it is suspended, and the files of an image grow while it is written.
 */
final class Moved {

  private static final long PAGE = 4096;

  private Moved() {}

  /** Returns the GPU memory of all members of a process. */
  static long gpuBytes(List<ProcessMember> members) {
    return members.stream()
        .flatMap(member -> member.gpuBytes().values().stream())
        .mapToLong(Long::longValue)
        .sum();
  }

  /** Returns the growth of the memory of the members of a process from now on. */
  static LongSupplier intoMemory(GpuProcess process) {
    List<Integer> pids = process.members().stream().map(member -> member.pid()).toList();
    long before = resident(pids);
    return () -> resident(pids) - before;
  }

  private static long resident(List<Integer> pids) {
    long sum = 0;
    for (int pid : pids) {
      try {
        String[] fields = Files.readString(Path.of("/proc/" + pid + "/statm")).split(" ", 3);
        sum += Long.parseLong(fields[1]) * PAGE;
      } catch (IOException e) {
        return 0; // it has ended, or is on disk
      }
    }
    return sum;
  }

  /** Returns the size of the files that are written below the parent of an image from now on. */
  static LongSupplier intoImage(Path image) {
    Path parent = image.toAbsolutePath().getParent();
    if (parent == null) {
      return () -> 0;
    }
    long before = size(parent);
    return () -> size(parent) - before;
  }

  /** Images are directories of files, and a store is a directory of images. */
  private static long size(Path directory) {
    long sum = 0;
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
      for (Path entry : entries) {
        try (Stream<Path> files = Files.walk(entry, 3)) {
          sum += files.mapToLong(Moved::length).sum();
        }
      }
    } catch (IOException | RuntimeException e) {
      return sum; // files come and go
    }
    return sum;
  }

  private static long length(Path file) {
    try {
      return Files.isRegularFile(file) ? Files.size(file) : 0;
    } catch (IOException e) {
      return 0;
    }
  }
}
