package dev.gpuprocess.criu.internal.images;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import com.google.protobuf.UnknownFieldSet;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.proto.Images.core_entry;
import dev.gpuprocess.criu.proto.Images.fdinfo_entry;
import dev.gpuprocess.criu.proto.Images.file_entry;
import dev.gpuprocess.criu.proto.Images.fs_entry;
import dev.gpuprocess.criu.proto.Images.inet_sk_entry;
import dev.gpuprocess.criu.proto.Images.inventory_entry;
import dev.gpuprocess.criu.proto.Images.mm_entry;
import dev.gpuprocess.criu.proto.Images.pagemap_entry;
import dev.gpuprocess.criu.proto.Images.pagemap_head;
import dev.gpuprocess.criu.proto.Images.plugins_entry;
import dev.gpuprocess.criu.proto.Images.pstree_entry;
import dev.gpuprocess.criu.proto.Images.reg_file_entry;
import dev.gpuprocess.criu.proto.Images.task_core_entry;
import dev.gpuprocess.criu.proto.Images.task_kobj_ids_entry;
import dev.gpuprocess.criu.proto.Images.unix_sk_entry;
import dev.gpuprocess.criu.proto.Images.vma_entry;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.DumpedMemory;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.image.DumpedTree;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Hand-made images. WorkloadsTest compares CRIU's images with /proc. */
@Tag("jdk")
class TreeReaderTest {

  // Magic numbers of CRIU's images.
  private static final int COMMON = 0x54564319;
  private static final int INVENTORY = 0x58313116;
  private static final int PSTREE = 0x50273030;
  private static final int IDS = 0x54432030;
  private static final int CORE = 0x55053847;
  private static final int FS = 0x51403912;
  private static final int MM = 0x57492820;
  private static final int PAGEMAP = 0x56084025;
  private static final int FILES = 0x56303138;
  private static final int FDINFO = 0x56213732;

  private static final int PAGE = 4096;
  private static final int ANONYMOUS = 1 | 1 << 9;
  private static final int SHARED = 1 | 1 << 8;

  @TempDir Path images;

  private static byte[] file(int magic, MessageLite... messages) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    if (magic != INVENTORY) {
      out.writeBytes(number(COMMON));
    }
    out.writeBytes(number(magic));
    for (MessageLite message : messages) {
      byte[] bytes = message.toByteArray();
      out.writeBytes(number(bytes.length));
      out.writeBytes(bytes);
    }
    return out.toByteArray();
  }

  private static byte[] number(int value) {
    return ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array();
  }

  private void write(String name, byte[] content) throws IOException {
    Files.write(images.resolve(name), content);
  }

  private void write(String name, int magic, MessageLite... messages) throws IOException {
    write(name, file(magic, messages));
  }

  private void writePageMap(String of, int pages, pagemap_entry... runs) throws IOException {
    MessageLite[] all = new MessageLite[runs.length + 1];
    all[0] = pagemap_head.newBuilder().setPagesId(pages).build();
    System.arraycopy(runs, 0, all, 1, runs.length);
    write("pagemap-" + of + ".img", PAGEMAP, all);
  }

  /** Reads images that are refused with this message. */
  private void assertRefused(String reason) {
    ImageException e =
        assertReason(ImageException.class, ImageException.Reason.CORRUPT, this::read);
    assertTrue(e.getMessage().contains(reason), e.getMessage());
  }

  private static file_entry regular(int id, String path, long position) {
    return file_entry
        .newBuilder()
        .setType(1)
        .setId(id)
        .setReg(reg_file_entry.newBuilder().setName(path).setPos(position))
        .build();
  }

  /** A process with two mappings, a dead child, and arguments on its first dumped page. */
  @BeforeEach
  void writeImages() throws IOException {
    task_kobj_ids_entry ids =
        task_kobj_ids_entry.newBuilder().setFilesId(1).setPidNsId(1).setNetNsId(2).build();
    UnknownFieldSet later =
        UnknownFieldSet.newBuilder()
            .addField(999, UnknownFieldSet.Field.newBuilder().addVarint(7).build())
            .build();
    write(
        "inventory.img",
        INVENTORY,
        inventory_entry
            .newBuilder()
            .setImgVersion(2)
            .setRootIds(ids.toBuilder().setNetNsId(9))
            .setPluginsEntry(plugins_entry.newBuilder().addPlugins("cuda_plugin"))
            .setUnknownFields(later)
            .build());
    write(
        "pstree.img",
        PSTREE,
        pstree_entry.newBuilder().setPid(40).setPgid(40).setSid(40).addThreads(40).build(),
        pstree_entry.newBuilder().setPid(41).setPpid(40).setPgid(40).setSid(40).build());
    write("ids-40.img", IDS, ids);
    write("core-40.img", CORE, core(1, "tool"));
    write("core-41.img", CORE, core(6, "gone"));
    write("fs-40.img", FS, fs_entry.newBuilder().setCwdId(2).build());
    write(
        "mm-40.img",
        MM,
        mm_entry
            .newBuilder()
            .setExeFileId(1)
            .setMmArgStart(0x11ff8)
            .setMmArgEnd(0x12004)
            .addVmas(vma(0x10000, 8, ANONYMOUS))
            .addVmas(vma(0x40000, 2, SHARED).setShmid(77).setPgoff(PAGE))
            .build());
    writePages();
    writeFiles();
  }

  private static core_entry core(int state, String name) {
    return core_entry
        .newBuilder()
        .setTc(task_core_entry.newBuilder().setTaskState(state).setComm(name))
        .build();
  }

  private static vma_entry.Builder vma(long start, int pages, int status) {
    return vma_entry
        .newBuilder()
        .setStart(start)
        .setEnd(start + (long) pages * PAGE)
        .setStatus(status);
  }

  private static pagemap_entry run(long address, int pages, int flags) {
    return pagemap_entry
        .newBuilder()
        .setVaddr(address)
        .setCompatNrPages(pages)
        .setFlags(flags)
        .setNrPages(pages)
        .build();
  }

  private void writePages() throws IOException {
    writePageMap("40", 3, run(0x10000, 1, 1), run(0x11000, 1, 4), run(0x12000, 1, 4));
    byte[] pages = new byte[2 * PAGE];
    byte[] arguments = "tool\0-x\0a b".getBytes(StandardCharsets.UTF_8);
    System.arraycopy(arguments, 0, pages, 0xff8, arguments.length);
    write("pages-3.img", pages);
    writePageMap("shmem-77", 4, run(0, 1, 4), run(2 * PAGE, 1, 4));
  }

  private void writeFiles() throws IOException {
    inet_sk_entry tcp =
        inet_sk_entry
            .newBuilder()
            .setFamily(10)
            .setProto(6)
            .setState(1)
            .setSrcPort(80)
            .setDstPort(4711)
            .addAllSrcAddr(List.of(0, 0, 0, 1 << 24))
            .addAllDstAddr(List.of(0, 0, 0, 1 << 24))
            .build();
    unix_sk_entry unix =
        unix_sk_entry
            .newBuilder()
            .setIno(5)
            .setType(1)
            .setState(10)
            .setName(ByteString.copyFromUtf8("\0bus"))
            .build();
    write(
        "files.img",
        FILES,
        regular(1, "usr/bin/tool", 0),
        regular(2, ".", 0),
        regular(3, "var/log/x", 12),
        file_entry.newBuilder().setType(4).setId(4).setIsk(tcp).build(),
        file_entry.newBuilder().setType(5).setId(5).setUsk(unix).build(),
        file_entry.newBuilder().setType(99).setId(6).build());
    write(
        "fdinfo-1.img",
        FDINFO,
        fd(7, 3, 1),
        fd(4, 4, 4),
        fd(5, 5, 5),
        fd(6, 6, 99),
        fd(9, 1234, 1));
  }

  private static fdinfo_entry fd(int number, int id, int type) {
    return fdinfo_entry.newBuilder().setFd(number).setId(id).setType(type).build();
  }

  private DumpedTree read() {
    return new TreeReader(images).read(PAGE, null);
  }

  @Test
  void treeIsRead() throws IOException {
    DumpedTree tree = read();
    assertEquals(2, tree.imageVersion());
    assertEquals(List.of("cuda_plugin"), tree.plugins());
    assertEquals(List.of("cuda_plugin"), new TreeReader(images).plugins());
    assertEquals(java.util.Set.of("net"), tree.namespaces());
    DumpedProcess root = tree.root();
    assertEquals(40, root.pid());
    assertEquals(List.of("tool", "-x", "a b"), root.commandLine());
    assertEquals("/usr/bin/tool", root.executable());
    assertEquals("/", root.workingDirectory());
    assertEquals(
        List.of(
            new DumpedMemory(DumpedMemory.Kind.ANONYMOUS, 1, 8 * PAGE, 2 * PAGE),
            new DumpedMemory(DumpedMemory.Kind.SHARED, 1, 2 * PAGE, PAGE)),
        root.memory());
    assertEquals(
        List.of(
            "4 -> tcp [0:0:0:0:0:0:0:1]:80 -> [0:0:0:0:0:0:0:1]:4711 established",
            "5 -> unix stream @bus listening [5]",
            "6 -> other",
            "7 -> /var/log/x at 12",
            "9 -> not in the images"),
        root.files().stream().map(Object::toString).toList());
    DumpedProcess child = tree.process(41).orElseThrow();
    assertEquals(DumpedProcess.State.ZOMBIE, child.state());
    assertTrue(tree.toString().contains("\n  41 gone (zombie)"), tree::toString);
    assertEquals(40, new TreeReader(images).rootPid());
  }

  /** The largest number of mappings of a process, each with its own run of pages. */
  @Test
  @OutsideUse("D5")
  void timeIsInProportionToMappings() throws IOException {
    int count = 65_000;
    mm_entry.Builder mm = mm_entry.newBuilder().setExeFileId(1);
    pagemap_entry[] runs = new pagemap_entry[count];
    for (int i = 0; i < count; i++) {
      long start = 0x10000 + 3L * PAGE * i;
      mm.addVmas(vma(start, 2, ANONYMOUS));
      runs[i] = run(start, 1, 4);
    }
    write("mm-40.img", MM, mm.build());
    writePageMap("40", 3, runs);
    DumpedTree tree = assertTimeout(Duration.ofSeconds(10), this::read);
    assertEquals(
        List.of(
            new DumpedMemory(
                DumpedMemory.Kind.ANONYMOUS, count, 2L * count * PAGE, (long) count * PAGE)),
        tree.root().memory());
  }

  @Test
  void runsAreFoundWhereverAMappingBegins() throws IOException {
    writePageMap("40", 3, run(0x10000, 4, 4), run(0x20000, 4, 1), run(0x30000, 4, 4));
    PageMap map = PageMap.read(images, "40", PAGE);
    for (long from = 0xf000; from <= 0x35000; from += 0x800) {
      for (long to = 0xf000; to <= 0x35000; to += 0x800) {
        long present =
            Math.max(0, Math.min(to, 0x14000) - Math.max(from, 0x10000))
                + Math.max(0, Math.min(to, 0x34000) - Math.max(from, 0x30000));
        assertEquals(present, map.present(from, to), from + " to " + to);
      }
    }
    assertEquals(0, map.present(Long.MAX_VALUE - 5, Long.MIN_VALUE));
  }

  @Test
  @OutsideUse("B2")
  void anInterruptSaysNothingOfTheImages() {
    Thread.currentThread().interrupt();
    try {
      assertEquals(List.of("tool", "-x", "a b"), read().root().commandLine());
    } finally {
      assertTrue(Thread.interrupted(), "the flag stays");
    }
  }

  /** A file of no blocks can be of any length, and so can what it says of itself. */
  @Test
  @OutsideUse("D5")
  void whatThisJvmHasNoMemoryForIsRefused() throws IOException {
    try (RandomAccessFile file = new RandomAccessFile(images.resolve("mm-40.img").toFile(), "rw")) {
      file.write(file(MM));
      file.write(number(Integer.MAX_VALUE));
      file.setLength(3L << 30);
    }
    assertRefused("mm-40.img has more than");
  }

  @Test
  @OutsideUse("D5")
  void aThreadThatIsListedTwiceIsNotReadTwice() throws IOException {
    write(
        "pstree.img",
        PSTREE,
        pstree_entry.newBuilder().setPid(40).addThreads(40).addThreads(40).build());
    assertRefused("thread 40 twice");
    pstree_entry one = pstree_entry.newBuilder().setPid(41).build();
    write("pstree.img", PSTREE, one, one);
    assertRefused("process 41 twice");
  }

  @Test
  void commandLineThatIsNotInTheImagesIsLeftOut() throws IOException {
    writePageMap("40", 3, run(0x11000, 1, 4), run(0x12000, 1, 1));
    assertEquals(List.of(), read().root().commandLine());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "inventory.img",
        "pstree.img",
        "core-40.img",
        "core-41.img",
        "mm-40.img",
        "fs-40.img",
        "files.img",
        "pages-3.img"
      })
  void missingFileIsNamed(String name) throws IOException {
    Files.delete(images.resolve(name));
    assertRefused(name);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "inventory.img",
        "pstree.img",
        "core-40.img",
        "ids-40.img",
        "mm-40.img",
        "fs-40.img",
        "files.img",
        "fdinfo-1.img",
        "pagemap-40.img",
        "pagemap-shmem-77.img",
        "pages-3.img"
      })
  void fileThatIsCutOffIsNamed(String name) throws IOException {
    byte[] whole = Files.readAllBytes(images.resolve(name));
    write(name, java.util.Arrays.copyOf(whole, name.startsWith("pages") ? 4000 : whole.length - 1));
    assertRefused(name + " is cut off");
  }

  @Test
  void fileOfAnotherKindIsRefused() throws IOException {
    Files.copy(images.resolve("core-40.img"), images.resolve("core-42.img"));
    Files.delete(images.resolve("core-40.img"));
    Files.copy(images.resolve("ids-40.img"), images.resolve("core-40.img"));
    assertRefused("not an image of the kind CORE");
  }

  /** Files with random content are read or refused. */
  @Test
  void alteredFilesAreReadOrRefused() throws IOException {
    Random random = new Random(4711);
    List<Path> files;
    try (Stream<Path> entries = Files.list(images)) {
      files = entries.sorted().toList();
    }
    int refused = 0;
    for (int i = 0; i < 500; i++) {
      Path file = files.get(random.nextInt(files.size()));
      byte[] whole = Files.readAllBytes(file);
      byte[] altered = whole.clone();
      for (int bytes = 1 + random.nextInt(3); bytes > 0; bytes--) {
        altered[random.nextInt(altered.length)] = (byte) random.nextInt();
      }
      Files.write(file, altered);
      try {
        assertTrue(read().toString().length() > 10);
      } catch (ImageException e) {
        assertEquals(ImageException.Reason.CORRUPT, e.reason(), e.getMessage());
        refused++;
      }
      Files.write(file, whole);
    }
    assertTrue(refused > 50, "only " + refused + " were refused");
  }
}
