package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.ImageProcess.Role;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.ManifestMember;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.ProcessMember;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("jdk")
class ManifestFileTest {

  private static final Path FILE = Path.of("/images/job/manifest.json");

  /**
   * Images outlive versions of this library: this text must stay readable as long as format 1
   * exists.
   */
  private static final String FORMAT_1 =
      """
      {
        "formatVersion": 1,
        "created": "2026-11-21T10:15:30.123456789Z",
        "pid": 4242,
        "startTicks": 123456,
        "commandLine": [
          "/usr/bin/python3",
          "train.py",
          "--name=Zoë \\"<&>\\""
        ],
        "gpuBytes": {
          "GPU-1f6d2a10-3c1b-4e7f-9a55-0123456789ab": 1073741824,
          "GPU-8f6d2a10-3c1b-4e7f-9a55-0123456789ab": 6442450944
        },
        "cudaVersion": 13000,
        "driverVersion": "580.159.04",
        "criuVersion": "4.2.1",
        "kernel": "6.18.44",
        "options": {
          "criu": [
            "tcp-established",
            "file-locks",
            "external-mounts",
            "enable-external-masters",
            "enable-fs=squashfs",
            "manage-cgroups=soft",
            "shell-job"
          ]
        },
        "files": [
          {
            "path": "criu/cgroup.img",
            "bytes": 0,
            "checksum": "CRC32C",
            "chunks": []
          },
          {
            "path": "criu/pages-1.img",
            "bytes": 67108865,
            "checksum": "CRC32C",
            "chunks": [
              "00000000",
              "c1ffee99"
            ]
          }
        ]
      }
      """;

  private static ManifestData read(String text) {
    byte[] content = text.getBytes(StandardCharsets.UTF_8);
    return ManifestFile.read(FILE, content, ManifestFile.sum(content), null, null);
  }

  private static void refused(String text, String reason) {
    ImageException e =
        assertReason(ImageException.class, ImageException.Reason.CORRUPT, () -> read(text));
    TestImages.says(e, reason);
    TestImages.says(e, FILE.toString());
  }

  @Test
  void format1IsReadAndWritten() {
    ManifestData manifest = read(FORMAT_1);
    assertEquals(
        TestImages.manifest(
            List.of(
                new ChecksummedFile("criu/cgroup.img", 0, Checksum.CRC32C, List.of()),
                new ChecksummedFile(
                    "criu/pages-1.img",
                    67108865,
                    Checksum.CRC32C,
                    List.of("00000000", "c1ffee99")))),
        manifest);
    assertEquals(67108865, manifest.bytes());
    assertArrayEquals(FORMAT_1.getBytes(StandardCharsets.UTF_8), ManifestFile.write(manifest));
  }

  @Test
  void theSumIsWhatSha256sumSays() {
    assertEquals(
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n",
        new String(
            ManifestFile.sum("abc".getBytes(StandardCharsets.US_ASCII)),
            StandardCharsets.US_ASCII));
  }

  @ParameterizedTest
  @ValueSource(strings = {"0", "5", "-1", "2147483647"})
  void otherFormatsAreNamed(String version) {
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.FORMAT,
            () -> read("{\"formatVersion\": " + version + ", \"whatever\": [1]}"));
    TestImages.says(e, "has format " + version);
  }

  /**
   * The text of an image with a memory file, which must stay readable as long as format 2 exists.
   */
  private static String format2() {
    return FORMAT_1
        .replace("\"formatVersion\": 1", "\"formatVersion\": 2")
        .replace(
            """
                  "c1ffee99"
                ]
              }
            ]
            """
                .indent(2),
            """
                  "c1ffee99"
                ]
              },
              {
                "path": "gpu/memory-1.bin",
                "bytes": 4096,
                "checksum": "CRC32C",
                "chunks": [
                  "01020304"
                ]
              }
            ],
            "memory": [
              {
                "file": "gpu/memory-1.bin",
                "mappedAs": "/images/ö/.gpuprocess-1.partial/gpu/memory-1.bin",
                "ranges": [
                  "7f0000000000-7f0000001000"
                ]
              }
            ]
            """
                .indent(2));
  }

  @Test
  void format2HasMemoryFiles() {
    ManifestData manifest = read(format2());
    MemoryFile memory = manifest.memoryFiles().get(0);
    assertEquals("gpu/memory-1.bin", memory.file());
    assertEquals("/images/ö/.gpuprocess-1.partial/gpu/memory-1.bin", memory.mappedAs());
    assertEquals(format2(), new String(ManifestFile.write(manifest), StandardCharsets.UTF_8));
    assertEquals(List.of(), read(FORMAT_1).memoryFiles());
  }

  @Test
  void memoryFilesAreListedAndDescribedAndOfAnImagesOwnName() {
    for (String[] change :
        new String[][] {
          {"\"formatVersion\": 2", "\"formatVersion\": 1", "format 1"},
          {"\"file\": \"gpu/memory-1.bin\"", "\"file\": \"gpu/memory-2.bin\"", "cannot have been"},
          {"\"file\": \"gpu/memory-1.bin\"", "\"file\": \"gpu/../x\"", "is not a memory file"},
          {"\"/images/ö/", "\"images/ö/", "cannot have been mapped"},
          {"\"/images/ö/", "\"/images/../", "cannot have been mapped"},
          {"\"/images/ö/", "\"/images/./", "cannot have been mapped"},
          {"\"/images/ö/", "\"//images/", "cannot have been mapped"},
          {"7f0000000000-7f0000001000", "7f0000000000-7f0000002000", "not as long"},
          {"7f0000000000-7f0000001000", "7f0000001000-7f0000000000", "not as long"},
          {"\"/images/ö/", "\"/images/\\n/", "cannot have been mapped"},
          {".partial/gpu/memory-1.bin", ".partial/etc/passwd", "cannot have been mapped"},
          {"7f0000000000-7f0000001000", "7f0000000000", "impossible addresses"},
          {"\"path\": \"gpu/memory-1.bin\"", "\"path\": \"gpu/memory-2.bin\"", "the list of files"}
        }) {
      assertTrue(format2().contains(change[0]), change[0]);
      refused(format2().replace(change[0], change[1]), change[2]);
    }
  }

  /** The text of an image of a tree, which must stay readable as long as format 3 exists. */
  private static String format3() {
    String text = FORMAT_1.replace("\"formatVersion\": 1", "\"formatVersion\": 3");
    int begin = text.indexOf("  \"gpuBytes\"");
    int end = text.indexOf("  \"cudaVersion\"");
    text = text.substring(0, begin) + "  \"gpuBytes\": {},\n" + text.substring(end);
    return text.substring(0, text.lastIndexOf("\n}"))
        + """
          ,
            "members": [
              {
                "pid": 4243,
                "startTicks": 123457,
                "gpuBytes": {
                  "GPU-1f6d2a10-3c1b-4e7f-9a55-0123456789ab": 1073741824
                }
              },
              {
                "pid": 4244,
                "startTicks": 123458,
                "gpuBytes": {}
              }
            ]
          }
          """;
  }

  @Test
  void format3HasMembers() {
    ManifestData manifest = read(format3());
    assertEquals(
        List.of(4243, 4244), manifest.cudaProcesses().stream().map(ManifestMember::pid).toList());
    assertNotNull(manifest.members());
    assertEquals(format3(), new String(ManifestFile.write(manifest), StandardCharsets.UTF_8));
    assertEquals(
        List.of(new ManifestMember(4242, 123456, read(FORMAT_1).gpuBytes())),
        read(FORMAT_1).cudaProcesses());
    String none = format3().substring(0, format3().indexOf("[\n    {\n      \"pid\"")) + "[]\n}\n";
    assertEquals(List.of(), read(none).cudaProcesses());
  }

  @Test
  void callersGetASummary() {
    Manifest summary = read(FORMAT_1).summary();
    assertEquals(new ProcessIdentity(4242, 123456), summary.process());
    assertEquals(67108865, summary.bytes());
    assertEquals(List.of(), summary.memoryFiles());
    assertEquals(List.of(), summary.processes());
    assertEquals(List.of(), summary.steps());
    assertFalse(summary.isolated());
    ProcessMember root = summary.members().get(0);
    assertEquals(summary.process(), root.process());
    assertEquals(ProcessState.CHECKPOINTED, root.state());
    GpuUuid gpu = GpuUuid.of("GPU-1f6d2a10-3c1b-4e7f-9a55-0123456789ab");
    assertEquals(1073741824L, root.gpuBytes().get(gpu));
    List<ProcessMember> members = read(format3()).summary().members();
    assertEquals(List.of(4243, 4244), members.stream().map(ProcessMember::pid).toList());
    assertEquals(Map.of(), members.get(1).gpuBytes());
  }

  @Test
  void format4NamesAPlugin() {
    String none = format3().substring(0, format3().indexOf("[\n    {\n      \"pid\"")) + "[]\n}\n";
    String plugin =
        none.replace("\"formatVersion\": 3", "\"formatVersion\": 4")
            .replace(
                "\"shell-job\"\n    ]", "\"shell-job\"\n    ],\n    \"plugin\": \"amdgpu_plugin\"");
    ManifestData manifest = read(plugin);
    assertEquals("amdgpu_plugin", manifest.options().plugin());
    assertNotNull(manifest.members());
    assertEquals(plugin, new String(ManifestFile.write(manifest), StandardCharsets.UTF_8));
    refused(plugin.replace("\"formatVersion\": 4", "\"formatVersion\": 3"), "of plugins");
    refused(none.replace("\"formatVersion\": 3", "\"formatVersion\": 4"), "of plugins");
    refused(plugin.replace("amdgpu_plugin", "../plugin"), "not the name of a plugin");
  }

  @Test
  void membersAreThoseOfOneTree() {
    refused(format3().replace("\"formatVersion\": 3", "\"formatVersion\": 1"), "format 1");
    refused(FORMAT_1.replace("\"formatVersion\": 1", "\"formatVersion\": 3"), "format 3");
    refused(format3().replace("4244", "4243"), "named twice");
    refused(format3().replace("4244", "1"), "cannot have the member 1");
    refused(format3().replace("123458", "-1"), "started at -1");
    refused(format3().replace(": 1073741824", ": -1"), "cannot have held -1 bytes");
    refused(
        format3()
            .replace(
                "\"gpuBytes\": {},\n  \"cuda",
                "\"gpuBytes\": {\n    \"GPU-1f6d2a10-3c1b-4e7f-9a55-0123456789ab\": 5\n  },\n  \"cuda"),
        "format 3");
  }

  /** The text of an image with the requirements on a machine; earlier versions wrote none. */
  private static String withMachine() {
    return FORMAT_1.substring(0, FORMAT_1.lastIndexOf("\n}"))
        + """
          ,
            "machine": {
              "architecture": "amd64",
              "cpu": "A CPU @ 2.00GHz",
              "cpuFeatures": [
                "avx",
                "avx512_bf16",
                "sse4_2"
              ],
              "gpus": {
                "GPU-8f6d2a10-3c1b-4e7f-9a55-0123456789ab": "NVIDIA H200"
              },
              "files": [
                {
                  "path": "/usr/bin/py\\nthon3",
                  "bytes": 6831736,
                  "buildId": "00ff17"
                },
                {
                  "path": "/usr/lib/Zoë.so",
                  "bytes": 1,
                  "modified": "2026-11-21T10:15:30.123456789Z"
                }
              ]
            }
          }
          """;
  }

  @Test
  void aMachineIsPartOfTheManifestInEveryFormat() {
    ManifestData manifest = read(withMachine());
    assertEquals(TestImages.MACHINE, manifest.machine());
    assertEquals(withMachine(), new String(ManifestFile.write(manifest), StandardCharsets.UTF_8));
    assertNull(read(FORMAT_1).machine());
    assertNull(read(format2()).machine());
    assertNull(read(format3()).machine());
  }

  @Test
  void aMachineIsOneThatCanBe() {
    for (String[] change :
        new String[][] {
          {"amd64", "amd 64", "no such CPU"},
          {"A CPU @", "A\\u001bCPU @", "no such CPU"},
          {"A CPU @", "x".repeat(200), "no such CPU"},
          {"\"avx\"", "\"sse4_2\"", "cannot have these features"},
          {"\"avx\"", "\"AVX\"", "cannot have these features"},
          {"GPU-8f6d2a10-3c1b-4e7f-9a55-0123456789ab\": \"N", "GPU 0\": \"N", "not a GPU UUID"},
          {"NVIDIA H200", "\\u202eH200", "cannot be a GPU of that name"},
          {"/usr/bin/py", "usr/bin/py", "impossible path"},
          {"/usr/bin/py\\n", "/usr/bin/py\\u0000", "impossible path"},
          {"/usr/bin/py", "/" + "x".repeat(4096), "impossible path"},
          {"/usr/bin/py\\nthon3", "/usr/lib/Zoë.so", "named twice"},
          {"6831736", "-1", "impossible size"},
          {"00ff17", "00FF17", "impossible build id"},
          {"00ff17", "0ff17", "impossible build id"},
          {"00ff17", "00".repeat(65), "impossible build id"},
          {"\"bytes\": 6831736,\n        \"buildId\": \"00ff17\"", "\"bytes\": 1", "not one of"}
        }) {
      assertTrue(withMachine().contains(change[0]), change[0]);
      refused(withMachine().replace(change[0], change[1]), change[2]);
    }
    String list = "\"files\": [\n      ";
    StringBuilder many = new StringBuilder(list);
    for (int i = 0; i < ImageMachine.MOST_FILES; i++) {
      many.append(
          "{\n        \"path\": \"/%s\",\n        \"bytes\": 1,\n        \"buildId\": \"00\"\n      },\n      "
              .formatted(i));
    }
    refused(withMachine().replace(list, many), "too many");
  }

  /** The text of an image with its processes and steps; earlier versions wrote none. */
  private static String withTree() {
    return FORMAT_1.substring(0, FORMAT_1.lastIndexOf("\n}"))
        + """
          ,
            "processes": [
              {
                "pid": 1,
                "parent": 0,
                "controllerPid": 4242,
                "name": "init",
                "role": "LAUNCHER"
              },
              {
                "pid": 7,
                "parent": 1,
                "name": "Zoë",
                "role": "CUDA",
                "rank": 3
              },
              {
                "pid": 8,
                "parent": 7,
                "name": "pt_data_worker",
                "role": "WORKER"
              }
            ],
            "steps": [
              {
                "name": "lock",
                "pid": 4243,
                "microseconds": 1500,
                "bytes": 0
              },
              {
                "name": "hand over",
                "pid": 4243,
                "microseconds": 9000000,
                "bytes": 1073741824
              }
            ]
          }
          """;
  }

  @Test
  void processesAndStepsArePartOfTheManifest() {
    ManifestData manifest = read(withTree());
    assertEquals(withTree(), new String(ManifestFile.write(manifest), StandardCharsets.UTF_8));
    assertEquals(
        List.of(
            new ImageProcess(1, 0, 4242, "init", Role.LAUNCHER, null),
            new ImageProcess(7, 1, null, "Zoë", Role.CUDA, 3),
            new ImageProcess(8, 7, null, "pt_data_worker", Role.WORKER, null)),
        manifest.processes());
    assertEquals(Duration.ofSeconds(9), manifest.summary().steps().get(1).duration());
    assertNull(read(FORMAT_1).processes());
    assertNull(read(FORMAT_1).steps());
  }

  @Test
  void processesAreOfOneTree() {
    for (String[] change :
        new String[][] {
          {"\"pid\": 7,", "\"pid\": 0,", "the process 0"},
          {"\"pid\": 7,", "\"pid\": 1,", "the process 1"},
          {"\"parent\": 0", "\"parent\": 7", "not of one tree"},
          {"\"parent\": 7", "\"parent\": 9", "not of one tree"},
          {"\"parent\": 7", "\"parent\": 8", "the process 8"},
          {"4242,\n      \"name\"", "0,\n      \"name\"", "the process 1"},
          {"\"rank\": 3", "\"rank\": -3", "the process 7"},
          {"Zoë", "x".repeat(91), "the process 7"},
          {"Zoë", "\\u001bZ", "the process 7"},
          {"\"WORKER\"", "\"BOSS\"", "the process 8"},
          {"hand over", "Hand over", "no such step"},
          {"1500", "-1", "no such step"},
          {"1073741824\n    }\n  ]\n}", "-1\n    }\n  ]\n}", "no such step"}
        }) {
      assertTrue(withTree().contains(change[0]), change[0]);
      refused(withTree().replace(change[0], change[1]), change[2]);
    }
  }

  @Test
  void eachManifestHasOneText() {
    for (String other :
        List.of(
            FORMAT_1.replace("\n", ""),
            FORMAT_1 + "\n",
            FORMAT_1.replace("4242", "4242.0"),
            FORMAT_1.replace("4242", "4.242e3"),
            FORMAT_1.replace("\"pid\": 4242,", "\"pid\": 4241,\n  \"pid\": 4242,"),
            FORMAT_1.replace("\"kernel\"", "\"more\": 1,\n  \"kernel\""),
            FORMAT_1.replace("  \"startTicks\": 123456,\n", ""),
            FORMAT_1.replace("train", "\\u0074rain"),
            FORMAT_1.replace("123456789Z", "123456789+00:00"))) {
      assertReason(ImageException.class, ImageException.Reason.CORRUPT, () -> read(other), other);
    }
  }

  /** An image without a label has the format of versions without labels. */
  @Test
  @OutsideUse("D4")
  void aLabelIsPartOfTheManifest() {
    String labelled = FORMAT_1.replace("  \"files\"", "  \"label\": \"job 42 – 7\",\n  \"files\"");
    ManifestData manifest = read(labelled);
    assertEquals("job 42 – 7", manifest.label());
    assertEquals(labelled, new String(ManifestFile.write(manifest), StandardCharsets.UTF_8));
    refused(labelled.replace("job 42 – 7", " "), "a label has");
    refused(labelled.replace("job 42 – 7", "\\u001b[2J"), "a label has");
    refused(labelled.replace("job 42 – 7", "x".repeat(201)), "a label has");
  }

  @Test
  void refusesWhatCannotBe() {
    refused(FORMAT_1.replace("\"pid\": 4242", "\"pid\": 1"), "cannot be of pid 1");
    refused(FORMAT_1.replace("\"pid\": 4242", "\"pid\": -1"), "cannot be of pid -1");
    refused(FORMAT_1.replace("123456,", "-5,"), "started at -5");
    refused(FORMAT_1.replace(": 1073741824", ": -1"), "cannot have held -1 bytes");
    refused(FORMAT_1.replace("GPU-1f6d", "GPU-1F6D"), "cannot have held");
    refused(FORMAT_1.replace("GPU-1f6d", "MIG-1f6d"), "is not a GPU UUID");
    refused(FORMAT_1.replace("67108865", "67108864"), "impossible size");
    refused(FORMAT_1.replace("67108865", "-1"), "impossible size");
    refused(FORMAT_1.replace("67108865", "9223372036854775807"), "impossible size");
    refused(FORMAT_1.replace("c1ffee99", "C1FFEE99"), "impossible checksum");
    refused(FORMAT_1.replace("c1ffee99", "c1ffee9"), "impossible checksum");
    refused(FORMAT_1.replace("criu/pages", "criu/../pages"), "is not a file of an image");
    refused(FORMAT_1.replace("criu/pages-1.img", "criu/cgroup.img"), "names a file twice");
    refused(FORMAT_1.replace("\"CRC32C\"", "\"MD5\""), "checksum is missing");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"", " ", "null", "1", "[]", "\"text\"", "{", "{}", "\u0000", "{\"pid\": 1}", "//"})
  void refusesWhatIsNoManifest(String text) {
    assertReason(ImageException.class, ImageException.Reason.CORRUPT, () -> read(text));
  }
}
