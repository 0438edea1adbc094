package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Images made by an attacker, to be restored, or by broken disks. */
@Timeout(300)
@RequiresRoot("mounts a file system in memory")
@Tag("slow")
class HostileImageTest {

  private static final long SEED = 20261121;
  private static final int AT_LEAST = 1200;

  /** A manifest has thousands of mutants, of which each run checks a part. */
  private static final int PARTS = 3;

  private static final int SECONDS_EACH = 60;

  private static final Set<ImageException.Reason> REFUSALS =
      Set.of(
          ImageException.Reason.CORRUPT,
          ImageException.Reason.FORMAT,
          ImageException.Reason.MISSING,
          ImageException.Reason.NOT_TRUSTED);

  /** The result for a mutant. */
  private enum Verdict {
    REFUSED,
    ACCEPTED,
    UNCHANGED
  }

  private Path root;
  private ImageKey key;
  private Path plain;
  private Path signed;
  private Path withMemory;
  private final Map<Path, Map<String, String>> originals = new TreeMap<>();
  private final Map<Verdict, Integer> counts = new TreeMap<>();
  private final List<String> failures = new ArrayList<>();

  private Mount mount;

  @BeforeEach
  void makeImages(@TempDir Path directory) throws IOException, InterruptedException {
    mount = Mount.tmpfs(directory.resolve("mount"), "256m");
    root = mount.path();
    key = TestImages.key(root.resolve("key"), 5);
    plain = root.resolve("plain");
    signed = root.resolve("signed");
    withMemory = root.resolve("with-memory");
    TestImages.publish(plain, null);
    TestImages.publish(signed, key);
    TestImages.publishWithMemory(withMemory);
    originals.put(withMemory, fingerprint(withMemory));
    originals.put(plain, fingerprint(plain));
    originals.put(signed, fingerprint(signed));
  }

  @AfterEach
  void unmount() throws IOException {
    mount.close();
  }

  @Test
  void everyMutantIsRefused() throws Exception {
    Random random = new Random(SEED);
    List<String> plainFiles = files(plain);
    List<String> signedFiles = files(signed);
    ExecutorService victim = Executors.newSingleThreadExecutor();
    try {
      judge(victim, plain, null, FileMutants.ofEach(plainFiles, random));
      judge(victim, signed, key, FileMutants.ofEach(signedFiles, random));
      judge(victim, plain, null, FileMutants.ofDirectories());
      judge(victim, signed, key, FileMutants.ofDirectories());
      judge(victim, withMemory, null, FileMutants.ofEach(List.of(TestImages.MEMORY), random));
      judge(victim, withMemory, null, FileMutants.ofMemoryDirectory());
      byte[] itsManifest = Files.readAllBytes(withMemory.resolve(ManifestFile.NAME));
      judge(victim, withMemory, null, part(ManifestMutants.of(itsManifest)));
      byte[] plainManifest = Files.readAllBytes(plain.resolve(ManifestFile.NAME));
      byte[] signedManifest = Files.readAllBytes(signed.resolve(ManifestFile.NAME));
      judge(victim, plain, null, part(ManifestMutants.of(plainManifest)));
      judge(victim, signed, key, ForgedMutants.ofFields(signedManifest));
      judge(victim, signed, key, ForgedMutants.ofCode());
      List<String> images =
          signedFiles.stream().filter(file -> file.startsWith(ImageDirectory.IMAGES)).toList();
      while (judged() < AT_LEAST) {
        judge(victim, plain, null, List.of(FileMutants.ofContent(plainFiles, random)));
        judge(victim, signed, key, List.of(FileMutants.ofContent(signedFiles, random)));
        judge(victim, plain, null, List.of(ForgedMutants.ofMemory(random)));
        judge(victim, signed, key, List.of(ForgedMutants.ofContent(images, random)));
      }
    } finally {
      victim.shutdownNow();
    }
    int accepted = counts.getOrDefault(Verdict.ACCEPTED, 0);
    assertEquals(List.of(), failures);
    Figures.add("hostile images: %d mutants, %d accepted".formatted(judged(), accepted));
    assertEquals(0, accepted);
  }

  private static List<Mutant> part(List<Mutant> all) {
    int part = ThreadLocalRandom.current().nextInt(PARTS);
    return IntStream.range(0, all.size())
        .filter(i -> i % PARTS == part)
        .mapToObj(all::get)
        .toList();
  }

  private int judged() {
    return counts.getOrDefault(Verdict.REFUSED, 0) + counts.getOrDefault(Verdict.ACCEPTED, 0);
  }

  @Test
  void theJudgeCanTellAcceptedFromRefusedFromUnchanged() throws Exception {
    ExecutorService victim = Executors.newSingleThreadExecutor();
    try {
      Mutant none = new Mutant("none", (image, outside) -> {});
      Mutant harmless =
          new Mutant(
              "a note", (image, outside) -> Files.writeString(image.resolve("README"), "mine"));
      Mutant harmful =
          new Mutant("cut", (image, outside) -> Files.delete(image.resolve("criu/core-4242.img")));
      for (ImageKey with : new ImageKey[] {null, key}) {
        Path image = with == null ? plain : signed;
        assertEquals(Verdict.UNCHANGED, judge(victim, image, with, none));
        assertEquals(Verdict.ACCEPTED, judge(victim, image, with, harmless));
        assertEquals(Verdict.REFUSED, judge(victim, image, with, harmful));
      }
    } finally {
      victim.shutdownNow();
    }
  }

  private void judge(
      ExecutorService victim, Path original, @Nullable ImageKey with, List<Mutant> mutants)
      throws Exception {
    for (Mutant mutant : mutants) {
      Verdict verdict = judge(victim, original, with, mutant);
      counts.merge(verdict, 1, Integer::sum);
      if (verdict == Verdict.ACCEPTED) {
        failures.add("accepted: " + mutant.name());
      }
    }
  }

  private Verdict judge(
      ExecutorService victim, Path original, @Nullable ImageKey with, Mutant mutant)
      throws Exception {
    Path work = Files.createDirectory(root.resolve("work"));
    Path outside = Files.createDirectory(work.resolve("outside"));
    Path image = work.resolve("image");
    copy(original, image);
    mutant.change().to(image, outside);
    try {
      return fingerprint(image).equals(originals.get(original))
          ? Verdict.UNCHANGED
          : open(victim, image, with, mutant);
    } finally {
      delete(work);
    }
  }

  private Verdict open(ExecutorService victim, Path image, @Nullable ImageKey with, Mutant mutant)
      throws Exception {
    Future<@Nullable Throwable> outcome = victim.submit(() -> openAndVerify(image, with));
    Throwable thrown;
    try {
      thrown = outcome.get(SECONDS_EACH, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      throw new AssertionError("hangs: " + mutant.name(), e);
    }
    if (thrown == null) {
      return Verdict.ACCEPTED;
    }
    if (!(thrown instanceof ImageException refusal) || !REFUSALS.contains(refusal.reason())) {
      failures.add(mutant.name() + " is not refused but throws " + thrown);
    } else if (String.valueOf(refusal.getMessage()).length() > 1000) {
      failures.add(mutant.name() + " floods the log");
    }
    return Verdict.REFUSED;
  }

  @SuppressWarnings("CatchingUnchecked")
  private static @Nullable Throwable openAndVerify(Path image, @Nullable ImageKey with) {
    try (VerifiedImage verified = ImageDirectory.open(image, with).verified()) {
      return Files.isDirectory(verified.images()) ? null : new AssertionError("not a directory");
    } catch (Throwable e) {
      return e;
    }
  }

  private static List<String> files(Path image) throws IOException {
    try (Stream<Path> all = Files.walk(image)) {
      return all.filter(Files::isRegularFile)
          .map(file -> image.relativize(file).toString())
          .sorted()
          .toList();
    }
  }

  private static void copy(Path from, Path to) throws IOException {
    try (Stream<Path> all = Files.walk(from)) {
      for (Path each : all.toList()) {
        Files.copy(each, to.resolve(from.relativize(each)), StandardCopyOption.COPY_ATTRIBUTES);
      }
    }
  }

  private static void delete(Path directory) throws IOException {
    try (Stream<Path> all = Files.walk(directory)) {
      for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(each);
      }
    }
  }

  /** All attributes and the content of an image. */
  private static Map<String, String> fingerprint(Path image) throws IOException {
    Map<String, String> found = new TreeMap<>();
    if (!Files.exists(image, LinkOption.NOFOLLOW_LINKS)) {
      return found;
    }
    try (Stream<Path> all = Files.walk(image)) {
      for (Path each : all.toList()) {
        Map<String, Object> facts =
            Files.readAttributes(each, "unix:mode,uid,size,rdev", LinkOption.NOFOLLOW_LINKS);
        String content = "";
        if (Files.isRegularFile(each, LinkOption.NOFOLLOW_LINKS) && Files.size(each) < 1 << 24) {
          content =
              ChunkChecksum.of(
                  Checksum.SHA256,
                  each,
                  0,
                  Files.size(each),
                  WorkLimit.readingAtLength("test", 0, () -> false));
        }
        Object size = Files.isDirectory(each, LinkOption.NOFOLLOW_LINKS) ? "" : facts.get("size");
        found.put(
            image.relativize(each).toString(),
            "%s %s %s %s %s"
                .formatted(facts.get("mode"), facts.get("uid"), facts.get("rdev"), size, content));
      }
    }
    return found;
  }
}
