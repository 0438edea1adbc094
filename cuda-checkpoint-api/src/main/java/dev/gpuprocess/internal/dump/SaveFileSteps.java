package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.engine.ProcessOperation;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** {@link SaveFileStep} of all members, one after the other. For one thread. */
final class SaveFileSteps implements AutoCloseable {

  private final List<SaveFileStep> all = new ArrayList<>();

  /** Prepares; nothing is done yet. */
  SaveFileSteps(TreeOperation operation, DumpOptions options) {
    for (ProcessOperation each : operation.members()) {
      all.add(new SaveFileStep(each, options));
    }
  }

  /** Finds the files, and makes processes fit for CRIU whose files are not. */
  void look(CriuDriver criu) {
    int next = 1;
    for (SaveFileStep each : all) {
      next += each.look(criu, next);
    }
  }

  /** Copies what must be copied into the image; see {@link SaveFileStep#copy}. */
  void copy(
      StagedImage image, BoundedDiskTask disk, WorkLimit limit, Consumer<@Nullable Boolean> undo) {
    all.forEach(each -> each.copy(image, disk, limit, undo));
  }

  /** Puts the files into the image, as far as that was not done. */
  void write(
      StagedImage image, BoundedDiskTask disk, WorkLimit limit, Consumer<@Nullable Boolean> undo) {
    all.forEach(each -> each.write(image, disk, limit, undo));
  }

  /** Gives the files names under which CRIU finds them; see {@link SaveFileStep#name}. */
  void name(StagedImage image, BoundedDiskTask disk, Consumer<@Nullable Boolean> undo) {
    all.forEach(each -> each.name(image, disk, undo));
  }

  /** What is in files, for the manifest; null for nothing. */
  @Nullable List<MemoryFile> memory() {
    List<MemoryFile> files = all.stream().flatMap(each -> each.memory().stream()).toList();
    return files.isEmpty() ? null : files;
  }

  /** Checks that CRIU saw the files under the names that the manifest has. */
  void requireRecorded(Path images) {
    all.forEach(each -> each.requireRecorded(images));
  }

  /** Removes the names, which are not needed after CRIU has seen them. */
  void hideNames() {
    all.forEach(SaveFileStep::hideNames);
  }

  /** Lets the files go. */
  @Override
  public void close() {
    all.forEach(SaveFileStep::close);
  }

  /** Lets the files go, and closes the image that they are in. */
  void closeWith(StagedImage image) {
    try {
      close();
    } finally {
      image.close();
    }
  }
}
