package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.linux.ChildProcess;
import dev.gpuprocess.criu.proto.Rpc.inherit_fd;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.CriuSwitch;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The descriptors that CRIU inherits in order to pass them on to the tree. */
final class InheritedDescriptors implements AutoCloseable {

  private final List<inherit_fd> names = new ArrayList<>();
  private final List<Integer> descriptors = new ArrayList<>();
  private final List<Integer> opened = new ArrayList<>();

  private InheritedDescriptors() {}

  /** Opens the files among them. */
  static InheritedDescriptors open(CriuOptions criu) throws FileSystemException {
    InheritedDescriptors all = new InheritedDescriptors();
    try {
      criu.get(CriuSwitch.INHERIT_FD).forEach(all::add);
      for (Map.Entry<String, Path> file : criu.get(CriuSwitch.INHERIT_FILE).entrySet()) {
        int descriptor = Libc.open(file.getValue(), Libc.O_RDWR);
        all.opened.add(descriptor);
        all.add(file.getKey(), descriptor);
      }
      return all;
    } catch (FileSystemException e) {
      all.close();
      throw e;
    }
  }

  private void add(String resource, int descriptor) {
    int inCriu = ChildProcess.SOCKET + 1 + descriptors.size();
    descriptors.add(descriptor);
    names.add(inherit_fd.newBuilder().setKey(resource).setFd(inCriu).build());
  }

  /** The resource that each stands for, with its number in CRIU. */
  List<inherit_fd> names() {
    return names;
  }

  /** Their numbers in this JVM, in the order of their numbers in CRIU. */
  List<Integer> descriptors() {
    return descriptors;
  }

  @Override
  public void close() {
    opened.forEach(Libc::close);
    opened.clear();
  }
}
