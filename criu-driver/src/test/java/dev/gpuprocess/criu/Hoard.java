package dev.gpuprocess.criu;

import dev.gpuprocess.contract.TestJvm;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;

/** Opens all descriptors that are left to this JVM except a few. */
public final class Hoard implements AutoCloseable {

  /** A JVM that is to be starved gets so many: soon reached, and enough to work with. */
  private static final int LIMIT = 400;

  private final Deque<InputStream> held = new ArrayDeque<>();

  /**
   * Takes the descriptors.
   *
   * @param free the number of descriptors that stay free
   */
  public Hoard(int free) {
    try {
      while (held.size() < LIMIT) {
        held.push(new FileInputStream("/dev/null"));
      }
      throw new IllegalStateException("this JVM can open more than " + LIMIT + " files");
    } catch (IOException full) {
      for (int i = 0; i < free; i++) {
        release();
      }
    }
  }

  /** Returns the command that starts a JVM with few descriptors. */
  public static List<String> launcher() {
    return List.of("prlimit", "--nofile=" + LIMIT + ":" + LIMIT);
  }

  private void release() {
    try {
      held.pop().close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Frees the descriptors. */
  @Override
  public void close() {
    while (!held.isEmpty()) {
      release();
    }
  }

  /**
   * Loads all classes of this library: each class in a directory is a file, and a class whose first
   * loading fails is unusable.
   *
   * @param loader the class loader
   */
  public static void loadClasses(ClassLoader loader) throws IOException, ClassNotFoundException {
    for (String name : classes()) {
      Class.forName(name, false, loader);
    }
    // What is nowhere is looked for in every jar, which opens them.
    if (loader.getResource("dev/gpuprocess/nowhere") != null) {
      throw new IllegalStateException("there is such a thing");
    }
  }

  /** The names of all classes of ours. */
  static List<String> classes() throws IOException {
    List<String> names = new ArrayList<>();
    for (String place : TestJvm.classPath().split(File.pathSeparator)) {
      if (Files.isDirectory(Path.of(place))) {
        names.addAll(classes(Path.of(place)));
      }
    }
    return names;
  }

  private static List<String> classes(Path directory) throws IOException {
    try (Stream<Path> files = Files.walk(directory)) {
      return files
          .map(file -> directory.relativize(file).toString())
          .filter(name -> name.endsWith(".class") && !name.endsWith("module-info.class"))
          .map(name -> name.substring(0, name.length() - ".class".length()).replace('/', '.'))
          .toList();
    }
  }
}
