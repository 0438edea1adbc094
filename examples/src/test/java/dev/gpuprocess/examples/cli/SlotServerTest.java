package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.slot.GpuSlot;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SlotServerTest {

  /** A client without an answer never ends. */
  @Test
  void errorIsAnAnswer(@TempDir Path directory) throws Exception {
    GpuSlot slot = mock(GpuSlot.class);
    when(slot.processes()).thenThrow(new StackOverflowError("of the slot"));
    SlotSocket socket = new SlotSocket(directory, "main");
    try (SlotServer server = new SlotServer(slot, socket)) {
      assertEquals(socket.toString(), server.toString());
      assertEquals("of the slot", socket.call(Map.of("verb", "list")).get("message"));
    }
  }
}
