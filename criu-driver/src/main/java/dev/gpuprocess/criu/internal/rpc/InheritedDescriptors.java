package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.linux.ChildProcess;
import dev.gpuprocess.criu.proto.Rpc.inherit_fd;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.options.InheritedDescriptor;
import java.nio.file.FileSystemException;
import java.util.ArrayList;
import java.util.List;

/** The descriptors that CRIU inherits in order to pass them on to the tree. */
final class InheritedDescriptors implements AutoCloseable {

  private final List<inherit_fd> names = new ArrayList<>();
  private final List<Integer> descriptors = new ArrayList<>();
  private final List<Integer> opened = new ArrayList<>();

  private InheritedDescriptors() {}

  /** Opens those that are given as files. */
  static InheritedDescriptors open(List<InheritedDescriptor> wanted) throws FileSystemException {
    InheritedDescriptors all = new InheritedDescriptors();
    try {
      for (InheritedDescriptor each : wanted) {
        all.add(each);
      }
      return all;
    } catch (FileSystemException e) {
      all.close();
      throw e;
    }
  }

  private void add(InheritedDescriptor wanted) throws FileSystemException {
    int descriptor = wanted.descriptor();
    if (wanted.file() != null) {
      descriptor = Libc.open(wanted.file(), Libc.O_RDWR);
      opened.add(descriptor);
    }
    int inCriu = ChildProcess.SOCKET + 1 + descriptors.size();
    descriptors.add(descriptor);
    names.add(inherit_fd.newBuilder().setKey(wanted.resource()).setFd(inCriu).build());
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
