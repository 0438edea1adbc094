package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.MappedFile;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.jspecify.annotations.Nullable;

/** Makes images with files like CRIU's, by the code that makes real images. */
public final class TestImages {

  static final ProcessIdentity PROCESS = new ProcessIdentity(4242, 123456);

  /** The default time of an image. */
  static final Instant CREATED = Instant.parse("2026-11-21T10:15:30.123456789Z");

  /** The number of pages in the memory image. */
  static final int PAGES = 12;

  /** The memory file of images that have one. */
  static final String MEMORY = "gpu/memory-1.bin";

  private static final int MEMORY_BYTES = 3 << 12;

  /** The machine of an image with all fields. */
  static final ImageMachine MACHINE =
      new ImageMachine(
          "amd64",
          "A CPU @ 2.00GHz",
          List.of("avx", "avx512_bf16", "sse4_2"),
          Map.of("GPU-8f6d2a10-3c1b-4e7f-9a55-0123456789ab", "NVIDIA H200"),
          List.of(
              new MappedFile("/usr/bin/py\nthon3", 6831736, "00ff17", null),
              new MappedFile(
                  "/usr/lib/Zoë.so", 1, null, Instant.parse("2026-11-21T10:15:30.123456789Z"))));

  private TestImages() {}

  /** An earlier process with the pid of this JVM: the same pid with another start time. */
  static DirectoryMaker deadMaker() throws IOException {
    DirectoryMaker self = DirectoryMaker.current();
    ProcessIdentity process = self.process();
    return new DirectoryMaker(
        self.boot(),
        self.namespace(),
        new ProcessIdentity(process.pid(), process.startTicks() + 1));
  }

  /** Publishes an image of random content. */
  static ImageDirectory publish(Path directory, @Nullable ImageKey key) {
    try (StagedImage staged = StagedImage.create(directory, PROCESS, 0, key)) {
      fill(staged.images(), new Random(1));
      ImageDirectory image = staged.publish(TestImages::manifest);
      staged.logUnwanted();
      return image;
    }
  }

  /**
   * Publishes an image of random content with this time. Its process has another start time than
   * that of images with other times.
   */
  static ImageDirectory publishAt(Path directory, Instant created) {
    return publishAt(directory, created, "/usr/bin/python3");
  }

  /** Publishes an image of another program. */
  static ImageDirectory publishAt(Path directory, Instant created, String program) {
    try (StagedImage staged = StagedImage.create(directory, PROCESS, 0, null)) {
      fill(staged.images(), new Random(1));
      staged.logUnwanted();
      return staged.publish(files -> made(manifest(files), created, List.of(program)));
    }
  }

  private static ManifestData made(
      ManifestData manifest, Instant created, List<String> commandLine) {
    return new ManifestData(
        manifest.formatVersion(),
        created,
        manifest.pid(),
        manifest.startTicks() + Duration.between(CREATED, created).toMinutes(),
        commandLine,
        manifest.gpuBytes(),
        manifest.cudaVersion(),
        manifest.driverVersion(),
        manifest.criuVersion(),
        manifest.kernel(),
        manifest.options(),
        manifest.label(),
        manifest.files(),
        manifest.memory(),
        manifest.members(),
        manifest.machine(),
        manifest.processes(),
        manifest.steps(),
        null);
  }

  /** Publishes an image with a memory file. */
  static ImageDirectory publishWithMemory(Path directory) {
    return publishWithMemory(directory, CREATED);
  }

  /** Publishes an image with a memory file and this time. */
  static ImageDirectory publishWithMemory(Path directory, Instant created) {
    try (StagedImage staged = StagedImage.create(directory, PROCESS, 0, null)) {
      fill(staged.images(), new Random(1));
      byte[] memory = bytes(new Random(2), MEMORY_BYTES);
      DurableFiles.write(staged.makeMemoryDirectory().resolve("memory-1.bin"), memory);
      ChunkChecksum sum = ChunkChecksum.of(Checksum.CRC32C);
      sum.add(ByteBuffer.wrap(memory));
      staged.addMemory(
          new ChecksummedFile(MEMORY, MEMORY_BYTES, Checksum.CRC32C, List.of(sum.text())));
      ImageDirectory image =
          staged.publish(files -> made(withMemory(files), created, List.of("/usr/bin/python3")));
      staged.logUnwanted();
      return image;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static ManifestData withMemory(List<ChecksummedFile> files) {
    return manifest(
        ManifestData.FORMAT_WITH_MEMORY,
        null,
        files,
        List.of(
            new MemoryFile(
                MEMORY, "/images/" + MEMORY, List.of("7f0000000000-7f0000003000"), null)),
        MACHINE);
  }

  /** Writes the files of CRIU for a process with two threads, one child and some memory. */
  static void fill(Path images, Random random) {
    for (String name :
        List.of(
            "core-4242.img",
            "core-4243.img",
            "fdinfo-2.img",
            "files.img",
            "fs-4242.img",
            "ids-4242.img",
            "inventory.img",
            "mm-4242.img",
            "pstree.img",
            "seccomp.img",
            "timens-0.img",
            "tty-info.img")) {
      write(images.resolve(name), bytes(random, 40 + random.nextInt(3000)));
    }
    write(images.resolve("cgroup.img"), new byte[0]);
    int page = Math.toIntExact(Libc.PAGE_BYTES);
    write(
        images.resolve("pagemap-4242.img"),
        new PageMapBytes(1)
            .run(0x400000, 8, PageMapBytes.PRESENT)
            .run(0x7f0000000000L, PAGES - 9, PageMapBytes.PRESENT)
            .run(0x7f1000000000L, 3, PageMapBytes.IN_PARENT)
            .run(0x7ffd00000000L, 1, PageMapBytes.PRESENT)
            .bytes());
    write(images.resolve("pages-1.img"), bytes(random, PAGES * page));
    write(
        images.resolve("pagemap-shmem-77.img"),
        new PageMapBytes(2).run(0, 2, PageMapBytes.PRESENT).bytes());
    write(images.resolve("pages-2.img"), bytes(random, 2 * page));
  }

  static ManifestData manifest(List<ChecksummedFile> files) {
    return labelled(null, files);
  }

  static ManifestData labelled(@Nullable String label, List<ChecksummedFile> files) {
    return manifest(ManifestData.FORMAT, label, files, null, null);
  }

  private static ManifestData manifest(
      int format,
      @Nullable String label,
      List<ChecksummedFile> files,
      @Nullable List<MemoryFile> memory,
      @Nullable ImageMachine machine) {
    return new ManifestData(
        format,
        CREATED,
        PROCESS.pid(),
        PROCESS.startTicks(),
        List.of("/usr/bin/python3", "train.py", "--name=Zoë \"<&>\""),
        Map.of(
            "GPU-8f6d2a10-3c1b-4e7f-9a55-0123456789ab",
            6L << 30,
            "GPU-1f6d2a10-3c1b-4e7f-9a55-0123456789ab",
            1L << 30),
        13000,
        "580.159.04",
        "4.2.1",
        "6.18.44",
        new ManifestData.Options(
            List.of(
                "tcp-established",
                "file-locks",
                "external-mounts",
                "enable-external-masters",
                "enable-fs=squashfs",
                "manage-cgroups=soft",
                "shell-job"),
            null,
            null,
            null),
        label,
        files,
        memory,
        null,
        machine,
        null,
        null,
        null);
  }

  /** Computes the checksums of the files of an image, as a forger would. */
  static List<ChecksummedFile> sum(Path image, Checksum checksum) {
    try (PinnedDirectory held = PinnedDirectory.open(image);
        IoExecutor cores = IoExecutor.cores()) {
      List<ChecksummedFile> summed = new ArrayList<>();
      for (Path file : DurableFiles.list(image.resolve(ImageDirectory.IMAGES))) {
        summed.add(
            FileChecksums.start(
                    cores,
                    held,
                    image.relativize(file).toString(),
                    checksum,
                    WorkLimit.readingAtLength("sum", 0, () -> false))
                .await());
      }
      return summed;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Writes another manifest into an image, with a matching checksum. */
  static void forge(Path image, byte[] manifest) {
    write(image.resolve(ManifestFile.NAME), manifest);
    write(image.resolve(ManifestFile.SUM_NAME), ManifestFile.sum(manifest));
  }

  /** Writes a valid key file. */
  static ImageKey key(Path file, long seed) {
    write(file, bytes(new Random(seed), 32));
    try {
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return ImageKey.read(file);
  }

  public static void says(Throwable e, String part) {
    assertTrue(String.valueOf(e.getMessage()).contains(part), e.getMessage());
  }

  public static void saysNot(Throwable e, String part) {
    assertFalse(String.valueOf(e.getMessage()).contains(part), e.getMessage());
  }

  static byte[] bytes(Random random, int count) {
    byte[] bytes = new byte[count];
    random.nextBytes(bytes);
    return bytes;
  }

  static void write(Path file, byte[] content) {
    try {
      Files.write(file, content);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
