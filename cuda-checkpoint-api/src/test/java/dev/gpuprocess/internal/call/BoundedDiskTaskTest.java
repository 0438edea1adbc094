package dev.gpuprocess.internal.call;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.error.OperationTimedOutException;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class BoundedDiskTaskTest {

  @Test
  void deadlineThatPassedBeforeTheDiskWasUsed_isNotBlamedOnTheDisk() {
    BoundedDiskTask late = new BoundedDiskTask("dump", 47, Path.of("/"), Duration.ZERO);
    OperationTimedOutException e =
        assertThrows(
            OperationTimedOutException.class,
            () -> late.run("look at", () -> "unused", found -> {}));
    assertEquals(
        "dump of process 47 reached its deadline of 0 ms before it used the disk: allow more time,"
            + " in which the time of listeners counts",
        e.getMessage());
  }
}
