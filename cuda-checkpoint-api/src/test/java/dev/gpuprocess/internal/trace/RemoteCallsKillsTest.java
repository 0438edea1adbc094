package dev.gpuprocess.internal.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.RequiresRoot;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A tenth of what {@link RemoteCallsKills} can do. */
@RequiresRoot("traces processes")
class RemoteCallsKillsTest {

  @Test
  @Timeout(240)
  void aProcessSurvivesThoseWhoBorrowItsThreads() throws Exception {
    int kills = Integer.getInteger("gpuprocess.remote.kills", 20);

    assertEquals(0, RemoteCallsKills.run(kills, System.nanoTime()));
  }
}
