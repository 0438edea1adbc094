package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.proto.Images.fdinfo_entry;
import dev.gpuprocess.criu.proto.Images.file_entry;
import dev.gpuprocess.criu.proto.Images.memfd_inode_entry;
import dev.gpuprocess.image.DumpedFile;
import dev.gpuprocess.image.DumpedFile.Kind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** All open files of a tree, by id. */
final class FileTable {

  private static final int WRITE_END = 1; // O_WRONLY

  private final Path images;
  private final Map<Integer, file_entry> files = new HashMap<>();
  private final Map<Integer, String> memfds = new HashMap<>();
  private final Map<Integer, List<DumpedFile>> tables = new HashMap<>();

  FileTable(Path images) throws IOException {
    this.images = images;
    Path file = images.resolve("files.img");
    for (file_entry entry :
        ImageFileReader.all(file, ImageFileReader.Kind.FILES, file_entry.parser())) {
      files.put(entry.getId(), entry);
    }
    Path memfd = images.resolve("memfd.img");
    if (Files.exists(memfd)) {
      for (memfd_inode_entry entry :
          ImageFileReader.all(memfd, ImageFileReader.Kind.MEMFD, memfd_inode_entry.parser())) {
        memfds.put((int) entry.getInodeId(), entry.getName());
      }
    }
  }

  /** The descriptors of a table, which belongs to one process or is shared by several. */
  List<DumpedFile> descriptors(int table) throws IOException {
    List<DumpedFile> known = tables.get(table);
    if (known == null) {
      known = List.copyOf(read(table));
      tables.put(table, known);
    }
    return known;
  }

  private List<DumpedFile> read(int table) throws IOException {
    Path file = images.resolve("fdinfo-" + Integer.toUnsignedString(table) + ".img");
    if (!Files.exists(file)) {
      return List.of();
    }
    List<DumpedFile> descriptors = new ArrayList<>();
    for (fdinfo_entry entry :
        ImageFileReader.all(file, ImageFileReader.Kind.FDINFO, fdinfo_entry.parser())) {
      descriptors.add(
          new DumpedFile(entry.getFd(), entry.getId(), kind(entry.getType()), text(entry.getId())));
    }
    descriptors.sort(Comparator.comparingInt(DumpedFile::descriptor));
    return descriptors;
  }

  private static Kind kind(int type) {
    Kind[] kinds = Kind.values();
    return type >= 0 && type < kinds.length ? kinds[type] : Kind.OTHER;
  }

  /** Returns whether the images have a file on a file system under this number. */
  boolean hasFile(int id) {
    file_entry file = files.get(id);
    return file != null && file.hasReg();
  }

  /** Returns the path of an open file; may be empty. */
  String path(int id) {
    file_entry file = files.get(id);
    return file == null || !file.hasReg() ? "" : absolute(file.getReg().getName());
  }

  /** CRIU stores paths relative to the root directory, without the leading slash. */
  private static String absolute(String name) {
    return name.equals(".") ? "/" : name.startsWith("/") ? name : "/" + name;
  }

  private String text(int id) {
    file_entry file = files.get(id);
    if (file == null) {
      return "not in the images";
    }
    if (file.hasReg()) {
      long position = file.getReg().getPos();
      return path(id) + (position == 0 ? "" : " at " + position);
    }
    if (file.hasPipe()) {
      boolean writes = (file.getPipe().getFlags() & 3) == WRITE_END;
      return "pipe "
          + Integer.toUnsignedString(file.getPipe().getPipeId())
          + (writes ? " (write end)" : " (read end)");
    }
    if (file.hasFifo()) {
      return "fifo " + path(file.getFifo().getRegfId());
    }
    if (file.hasIsk()) {
      return Sockets.text(file.getIsk());
    }
    if (file.hasUsk()) {
      return Sockets.text(file.getUsk());
    }
    if (file.hasTty()) {
      return "terminal " + path(file.getTty().getRegfId());
    }
    if (file.hasMemfd()) {
      return "memfd " + memfds.getOrDefault(file.getMemfd().getInodeId(), "");
    }
    if (file.hasEfd()) {
      return "eventfd with " + Long.toUnsignedString(file.getEfd().getCounter());
    }
    if (file.hasPidfd()) {
      return "pidfd of " + file.getPidfd().getNspid();
    }
    return Sockets.text(file)
        .orElse(kind(file.getType()).name().toLowerCase(java.util.Locale.ROOT));
  }
}
