package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.manifest.MemoryFile;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** Changes to the files and directories of an image that contradict its manifest. */
final class FileMutants {

  private interface FileChange {
    void to(Path file) throws IOException, InterruptedException;
  }

  private interface ContentChange {
    byte[] of(byte[] content, Random random);
  }

  private FileMutants() {}

  /** Mutants of each kind for each file. */
  static List<Mutant> ofEach(List<String> files, Random random) {
    List<Mutant> all = new ArrayList<>();
    for (String file : files) {
      all.add(named(file, "removed", Files::delete));
      all.add(named(file, "one byte", path -> Files.write(path, new byte[1])));
      all.add(
          named(file, "a terabyte longer", path -> resize(path, Files.size(path) + (1L << 40))));
      all.add(named(file, "directory", FileMutants::becomeDirectory));
      all.add(named(file, "fifo", path -> make(path, "mkfifo", path.toString())));
      all.add(
          named(file, "/dev/zero", path -> make(path, "mknod", path.toString(), "c", "1", "5")));
      all.add(
          named(file, "block device", path -> make(path, "mknod", path.toString(), "b", "7", "9")));
      all.add(new Mutant(file + ": link", (image, outside) -> link(image.resolve(file), outside)));
      all.add(named(file, "link to itself", FileMutants::linkToItself));
      for (int mode : new int[] {0620, 0602, 0666, 0777, 0060}) {
        all.add(
            named(
                file,
                "mode %04o".formatted(mode),
                path -> Files.setAttribute(path, "unix:mode", mode)));
      }
      int uid = 1 + random.nextInt(60000);
      all.add(named(file, "uid " + uid, path -> Files.setAttribute(path, "unix:uid", uid)));
      all.add(named(file, "another name", path -> Files.move(path, beside(path))));
      if (file.contains("/")) {
        all.add(named(file, "also under another name", path -> Files.copy(path, beside(path))));
      }
    }
    return all;
  }

  private static Path beside(Path path) {
    return path.resolveSibling("x" + path.getFileName());
  }

  /** A change to the content of some file. */
  static Mutant ofContent(List<String> files, Random random) {
    String file = files.get(random.nextInt(files.size()));
    String other = files.get(random.nextInt(files.size()));
    long seed = random.nextLong();
    return switch (random.nextInt(8)) {
      case 0, 1, 2 -> content(file, "bit flipped", seed, FileMutants::flipBit);
      case 3 -> content(file, "cut", seed, (b, r) -> Arrays.copyOf(b, r.nextInt(b.length + 1)));
      case 4 ->
          content(file, "longer", seed, (b, r) -> Arrays.copyOf(b, b.length + 1 + r.nextInt(9000)));
      case 5 -> content(file, "part zeroed", seed, FileMutants::zero);
      case 6 -> content(file, "byte replaced", seed, FileMutants::replaceByte);
      default ->
          new Mutant(
              file + ": content of " + other,
              (image, outside) ->
                  Files.write(image.resolve(file), Files.readAllBytes(image.resolve(other))));
    };
  }

  /** Changes to the directories, and foreign files in them. */
  static List<Mutant> ofDirectories() {
    List<Mutant> all = new ArrayList<>(ofDirectory(""));
    all.addAll(ofDirectory(ImageDirectory.IMAGES));
    all.addAll(surplusIn(ImageDirectory.IMAGES, "core-1.img"));
    all.add(
        new Mutant(
            "parent image of CRIU's",
            (image, outside) ->
                Files.createSymbolicLink(image.resolve("criu").resolve("parent"), outside)));
    return all;
  }

  /** Changes to the directory of memory files. */
  static List<Mutant> ofMemoryDirectory() {
    List<Mutant> all = new ArrayList<>(ofDirectory(MemoryFile.DIRECTORY));
    all.addAll(surplusIn(MemoryFile.DIRECTORY, "memory-2.bin"));
    return all;
  }

  private static List<Mutant> ofDirectory(String directory) {
    List<Mutant> all = new ArrayList<>();
    String name = directory.isEmpty() ? "the image" : directory;
    for (int mode : new int[] {0770, 0707, 0777, 01777, 0720, 0702}) {
      all.add(
          named(
              directory,
              "%s: mode %04o".formatted(name, mode),
              path -> Files.setAttribute(path, "unix:mode", mode)));
    }
    all.add(named(directory, name + ": uid", path -> Files.setAttribute(path, "unix:uid", 12345)));
    all.add(
        new Mutant(name + ": link", (image, outside) -> link(image.resolve(directory), outside)));
    all.add(moved(directory, name + ": removed", path -> {}));
    all.add(moved(directory, name + ": file", Files::createFile));
    all.add(moved(directory, name + ": empty", DurableFiles::createDirectory));
    return all;
  }

  private static List<Mutant> surplusIn(String directory, String name) {
    String extra = directory + "/" + name;
    return List.of(
        named(extra, "extra file", Files::createFile),
        named(extra, "extra directory", Files::createDirectory),
        named(extra, "extra fifo", path -> make(path, "mkfifo", path.toString())),
        new Mutant(
            "extra link",
            (image, outside) -> Files.createSymbolicLink(image.resolve(extra), outside)));
  }

  private static Mutant named(String file, String what, FileChange change) {
    return new Mutant(file + ": " + what, (image, outside) -> change.to(image.resolve(file)));
  }

  private static Mutant moved(String directory, String what, FileChange instead) {
    return new Mutant(
        what,
        (image, outside) -> {
          Files.move(image.resolve(directory), outside.resolve("moved"));
          instead.to(image.resolve(directory));
        });
  }

  private static Mutant content(String file, String what, long seed, ContentChange change) {
    return named(
        file,
        what + " " + Long.toHexString(seed),
        path -> Files.write(path, change.of(Files.readAllBytes(path), new Random(seed))));
  }

  private static byte[] flipBit(byte[] content, Random random) {
    if (content.length > 0) {
      content[random.nextInt(content.length)] ^= (byte) (1 << random.nextInt(8));
    }
    return content;
  }

  /** Always changes something, except in an empty file. */
  static byte[] replaceByte(byte[] content, Random random) {
    if (content.length > 0) {
      content[random.nextInt(content.length)] ^= (byte) (1 + random.nextInt(255));
    }
    return content;
  }

  private static byte[] zero(byte[] content, Random random) {
    int from = random.nextInt(content.length + 1);
    Arrays.fill(content, from, Math.min(content.length, from + 64), (byte) 0);
    return content;
  }

  static void resize(Path file, long bytes) throws IOException {
    try (RandomAccessFile content = new RandomAccessFile(file.toFile(), "rw")) {
      content.setLength(bytes);
    }
  }

  private static void link(Path path, Path outside) throws IOException {
    Path moved = outside.resolve("moved");
    Files.move(path, moved);
    Files.createSymbolicLink(path, moved);
  }

  private static void linkToItself(Path path) throws IOException {
    Files.delete(path);
    Files.createSymbolicLink(path, path.getFileName());
  }

  private static void becomeDirectory(Path path) throws IOException {
    Files.delete(path);
    DurableFiles.createDirectory(path);
  }

  private static void make(Path path, String... command) throws IOException, InterruptedException {
    Files.deleteIfExists(path);
    String failure = Mount.run(command);
    if (!failure.isEmpty()) {
      throw new IOException(failure);
    }
  }
}
