package dev.gpuprocess.internal.machine;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.MachineDifference.Aspect;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.MappedFile;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.ManifestMember;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Differences between this machine and that of an image, and their messages. */
class MachineComparisonTest {

  private static final String H200 = "NVIDIA H200";
  private static final RestoreOptions DEFAULTS = RestoreOptions.ofDefaults();

  private final Map<String, Long> held = new LinkedHashMap<>(Map.of(uuid(0), 1L));
  private List<String> kinds = List.of(H200, H200);
  private List<MappedFile> files = List.of();
  private boolean isKnown = true;
  private @Nullable List<ManifestMember> members;

  private String architecture = "amd64";
  private List<String> features = List.of("avx2", "avx512f", "sse4_2");
  private Optional<String> driver = Optional.of("580.159.04");
  private Optional<GpuReading> gpus = Optional.of(reading(H200, H200));
  private String kernel = "6.18.44";
  private String criu = "4.2.1";

  private static String uuid(int number) {
    return "GPU-00000000-0000-0000-0000-00000000000" + number;
  }

  private static GpuReading reading(String... kinds) {
    List<Gpu> gpus =
        IntStream.range(0, kinds.length)
            .mapToObj(i -> new Gpu(GpuUuid.of(uuid(i)), kinds[i], 1, 1, List.of()))
            .toList();
    return new GpuReading(gpus, List.of());
  }

  private ManifestData manifest() {
    Map<String, String> names = new LinkedHashMap<>();
    for (int i = 0; i < kinds.size(); i++) {
      names.put(uuid(i), kinds.get(i));
    }
    return new ManifestData(
        members == null ? ManifestData.FORMAT : ManifestData.FORMAT_OF_JOB,
        Instant.EPOCH,
        4242,
        1,
        List.of("python3"),
        members == null ? held : Map.of(),
        13000,
        "580.159.04",
        "4.2.1",
        "6.18.44",
        new ManifestData.Options(List.of(), null, null, null),
        null,
        List.of(new ChecksummedFile("criu/a.img", 0, Checksum.CRC32C, List.of())),
        null,
        members,
        isKnown
            ? new ImageMachine(
                "amd64", "A Xeon", List.of("avx2", "avx512f", "sse4_2"), names, files)
            : null,
        null,
        null,
        null);
  }

  private List<MachineDifference> differences(RestoreOptions options) {
    ThisMachine here =
        new ThisMachine(architecture, new Cpu("An EPYC", features), driver, gpus, kernel, criu);
    return MachineComparison.of(manifest(), here, options);
  }

  private void assertDifference(boolean prevents, String text) {
    List<MachineDifference> found = differences(DEFAULTS);
    assertEquals(List.of(text), found.stream().map(MachineDifference::toString).toList());
    assertEquals(prevents, found.get(0).prevents());
  }

  @Test
  void theSameMachineDoesNotDiffer() {
    assertEquals(List.of(), differences(DEFAULTS));
  }

  @Test
  void otherVersionsAreRemarkable() {
    kernel = "6.1.0";
    assertDifference(false, "kernel: 6.18.44 in the image, 6.1.0 here");
    kernel = "6.18.44";
    criu = "4.3";
    assertDifference(false, "CRIU: 4.2.1 in the image, 4.3 here");
  }

  @Test
  void onlyAnOlderDriverPrevents() {
    driver = Optional.of("580.65.06");
    assertDifference(true, "driver: 580.159.04 in the image, 580.65.06 here");
    driver = Optional.of("590.1");
    assertDifference(false, "driver: 580.159.04 in the image, 590.1 here");
    driver = Optional.of("580.159.04.1");
    assertDifference(false, "driver: 580.159.04 in the image, 580.159.04.1 here");
    driver = Optional.of("99999999999.1");
    assertDifference(false, "driver: 580.159.04 in the image, 99999999999.1 here");
    driver = Optional.empty();
    assertDifference(false, "driver: 580.159.04 in the image, not known here");
  }

  @Test
  void treeWithoutCudaNeedsNoDriverAndNoGpu() {
    members = List.of();
    driver = Optional.of("470.1");
    gpus = Optional.of(reading());
    assertEquals(List.of(), differences(DEFAULTS));
  }

  @Test
  void missingInstructionsPreventUnlessTheCallerSaysOtherwise() {
    features = List.of("avx2", "gfni");
    assertDifference(true, "CPU: A Xeon with avx512f, sse4_2 in the image, An EPYC without here");
    for (CpuCheck lax : new CpuCheck[] {CpuCheck.NONE, CpuCheck.FPU}) {
      RestoreOptions options = RestoreOptions.builder().criu(c -> c.cpuCheck(lax)).build();
      assertEquals(
          List.of(false), differences(options).stream().map(MachineDifference::prevents).toList());
    }
    features = List.of();
    assertEquals(List.of(), differences(DEFAULTS), "not known");
    architecture = "aarch64";
    assertDifference(true, "CPU: amd64 in the image, aarch64 here");
  }

  @Test
  void ofEachKindOfGpuThereMustBeAsMany() {
    held.put(uuid(1), 5L);
    gpus = Optional.of(reading(H200));
    assertDifference(true, "GPUs: 2 x NVIDIA H200 in the image, 1 x NVIDIA H200 here");
    gpus = Optional.of(reading("NVIDIA A100", H200, "NVIDIA A100"));
    assertDifference(
        true, "GPUs: 2 x NVIDIA H200 in the image, 2 x NVIDIA A100, 1 x NVIDIA H200 here");
    gpus = Optional.of(reading());
    assertDifference(true, "GPUs: 2 x NVIDIA H200 in the image, none here");
  }

  @Test
  void theGpusOfAllMembersCount() {
    members =
        List.of(
            new ManifestMember(5, 1, Map.of(uuid(0), 1L)),
            new ManifestMember(6, 1, Map.of(uuid(1), 1L)));
    kinds = List.of(H200, "NVIDIA A100");
    assertDifference(
        true, "GPUs: 1 x NVIDIA A100, 1 x NVIDIA H200 in the image, 2 x NVIDIA H200 here");
  }

  @Test
  void gpusThatCannotBeReadMayBeTheOnes() {
    gpus = Optional.of(new GpuReading(List.of(), List.of("GPU 0: lost")));
    assertDifference(false, "GPUs: 1 x NVIDIA H200 in the image, none that can be read here");
    gpus = Optional.empty();
    assertDifference(false, "GPUs: 2 x NVIDIA H200 in the image, not known here");
    held.put(uuid(1), 1L);
    gpus = Optional.of(new GpuReading(List.of(), List.of("NVML did not answer")));
    assertDifference(false, "GPUs: 2 x NVIDIA H200 in the image, none that can be read here");
    gpus = Optional.of(new GpuReading(reading("NVIDIA A100").gpus(), List.of("GPU 1: lost")));
    assertDifference(true, "GPUs: 2 x NVIDIA H200 in the image, 1 x NVIDIA A100 here");
  }

  @Test
  void otherGpusOfTheKindAreRemarkableAndSoAreFewer() {
    held.clear();
    held.put(uuid(1), 1L);
    gpus = Optional.of(reading(H200));
    assertEquals(
        List.of(
            "GPUs: %s in the image, others (ResumeOptions.gpus says to which) here"
                .formatted(uuid(1)),
            "GPUs: 2 in the image, 1 here"),
        differences(DEFAULTS).stream().map(MachineDifference::toString).toList());
    assertTrue(differences(DEFAULTS).stream().noneMatch(MachineDifference::prevents));
  }

  @Test
  void anUnknownUsageIsOfTheOnlyKind() {
    held.clear();
    gpus = Optional.of(reading("NVIDIA A100", "NVIDIA A100"));
    assertDifference(true, "GPUs: 1 x NVIDIA H200 in the image, 2 x NVIDIA A100 here");
    kinds = List.of(H200, "NVIDIA L4");
    assertEquals(List.of(), differences(DEFAULTS), "it may have been neither of both");
  }

  @Test
  void propertiesThatAreNotRecordedAreNotCompared() {
    isKnown = false;
    architecture = "aarch64";
    features = List.of("fp");
    gpus = Optional.of(reading());
    assertEquals(List.of(), differences(DEFAULTS));
  }

  @Test
  void allAreNamedAtOnceAndThoseThatPreventFirst() {
    kernel = "6.1.0";
    driver = Optional.of("570.86.10");
    gpus = Optional.of(reading("NVIDIA A100"));
    features = List.of("avx2", "sse4_2");
    files = List.of(new MappedFile("/nowhere/lib\u001b[2J.so", 8192, "00ff", null));
    List<MachineDifference> all = differences(DEFAULTS);
    assertEquals(
        List.of(Aspect.CPU, Aspect.DRIVER, Aspect.GPU, Aspect.FILE, Aspect.KERNEL),
        all.stream().map(MachineDifference::aspect).toList());
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.MACHINE_MISMATCH,
            () -> MachineComparison.require(Path.of("/images/a"), 4242, all));
    assertEquals(all, e.differences());
    assertEquals(4242, e.failure().pid());
    assertEquals(
        "the image /images/a cannot be restored on this machine (CPU: A Xeon with avx512f in the"
            + " image, An EPYC without here; driver: 580.159.04 in the image, 570.86.10 here; GPUs:"
            + " 1 x NVIDIA H200 in the image, 1 x NVIDIA A100 here; /nowhere/lib\\u001b[2J.so: 8192"
            + " bytes in the image, missing here), and also differs (kernel: 6.18.44 in the"
            + " image, 6.1.0 here): use a machine like that of the dump and put these files there as"
            + " they were, or set RestoreOptions.skipMachineCheck(true) if the processes can run"
            + " without them; nothing was restored",
        e.getMessage());
  }

  @Test
  void otherDifferencesAreReportedAndRefuseNothing() {
    kernel = "6.1.0";
    criu = "4.3";
    assertEquals(
        "kernel: 6.18.44 in the image, 6.1.0 here; CRIU: 4.2.1 in the image, 4.3 here",
        MachineComparison.require(Path.of("/images/a"), 4242, differences(DEFAULTS)));
    assertEquals("", MachineComparison.require(Path.of("/images/a"), 4242, List.of()));
  }

  @Test
  void hundredsAreCountedInTheMessageAndAllInTheData() {
    List<MappedFile> many = new ArrayList<>();
    for (int i = 0; i < ImageMachine.MOST_FILES; i++) {
      many.add(new MappedFile("/nowhere/" + i + "x".repeat(100), 1, "00", null));
    }
    files = many;
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.MACHINE_MISMATCH,
            () -> MachineComparison.require(Path.of("/images/a"), 4242, differences(DEFAULTS)));
    assertEquals(ImageMachine.MOST_FILES, e.differences().size());
    assertTrue(e.getMessage().length() < 10_000, e.getMessage());
    assertTrue(e.getMessage().matches(".*; and \\d{5} more\\).*"), e.getMessage());
  }
}
