package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.report.ProcessMember;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
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

  /** Returns the size of an image that this JVM writes, which has another name until it is done. */
  static LongSupplier intoImage(Path image) {
    Path parent = image.toAbsolutePath().getParent();
    return parent == null ? () -> 0 : () -> size(image) + partial(parent);
  }

  /** Only these are measured: beside them there may be any number of other files. */
  private static long partial(Path parent) {
    long sum = 0;
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(parent, Moved::isWrittenHere)) {
      for (Path entry : entries) {
        sum += size(entry);
      }
    } catch (IOException | DirectoryIteratorException e) {
      return sum; // it does not exist yet, or cannot be read
    }
    return sum;
  }

  private static boolean isWrittenHere(Path entry) throws IOException {
    Optional<StagingName> name = StagingName.parse(String.valueOf(entry.getFileName()));
    return name.isPresent() && name.get().maker().equals(DirectoryMaker.current());
  }

  private static long size(Path image) {
    try (Stream<Path> files = Files.walk(image, 3)) {
      return files.mapToLong(Moved::length).sum();
    } catch (IOException | UncheckedIOException e) {
      return 0; // it is not there, or was given its name just now
    }
  }

  private static long length(Path file) {
    try {
      return Files.isRegularFile(file) ? Files.size(file) : 0;
    } catch (IOException e) {
      return 0;
    }
  }
}
