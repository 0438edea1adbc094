package dev.gpuprocess.internal.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.RequiresRoot;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A twentieth of the kills of {@link RemoteCallsKills}. */
@RequiresRoot("traces processes")
@Tag("slow")
class RemoteCallsKillsTest {

  @Test
  @Timeout(900)
  void aProcessSurvivesTheControllersThatBorrowItsThreads() throws Exception {
    int kills = Integer.getInteger("gpuprocess.remote.kills", 10);

    assertEquals(0, RemoteCallsKills.run(kills, System.nanoTime()));
  }
}
