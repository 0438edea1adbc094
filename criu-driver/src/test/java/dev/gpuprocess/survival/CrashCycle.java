package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.criu.FileTree;
import java.nio.file.Files;
import java.nio.file.Path;

/** Every verb once; what a controller does until it is killed. */
record CrashCycle(GpuCheckpoints checkpoints, int pid, Path images) {

  void run(int number) {
    checkpoints.process(pid).suspend().resume();
    Path dump = images.resolve("dump-" + number);
    checkpoints.process(pid).suspend().dump(dump).restore().resume();
    FileTree.remove(dump);
    checkpoints.process(pid).snapshot(snapshot(number));
    Path last = snapshot(number - 1);
    if (Files.exists(last)) {
      FileTree.remove(last);
    }
  }

  private Path snapshot(int number) {
    return images.resolve("snapshot-" + number);
  }
}
