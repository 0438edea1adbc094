package dev.gpuprocess.internal.restore;

import dev.gpuprocess.internal.extras.ImageExtras;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.options.RestoreOptions;
import java.util.Map;
import java.util.TreeMap;

/**
 * The files that a tree had opened outside of its mount namespace, open for a restore.
 *
 * @param open the descriptors, by the names that CRIU has for them
 */
record OutsideDescriptors(Map<String, Integer> open) implements AutoCloseable {

  static OutsideDescriptors open(ImageExtras extras, int pid) {
    OutsideDescriptors all = new OutsideDescriptors(new TreeMap<>());
    try {
      extras.outsideFiles().forEach(file -> all.open.put(file.external().text(), file.open(pid)));
      return all;
    } catch (RuntimeException | Error e) {
      all.close();
      throw e;
    }
  }

  RestoreOptions with(RestoreOptions options) {
    return open.isEmpty()
        ? options
        : options.toBuilder().criu(criu -> open.forEach(criu::inherit)).build();
  }

  @Override
  public void close() {
    open.values().forEach(Descriptors::close);
    open.clear();
  }
}
