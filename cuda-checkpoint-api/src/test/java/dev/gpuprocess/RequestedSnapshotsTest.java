package dev.gpuprocess;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.eq;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.never;
import static org.mockito.Mockito.timeout;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import dev.gpuprocess.internal.launch.RequestChannel;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RequestedSnapshotsTest {

  private static final long PATIENCE = Duration.ofMinutes(3).toMillis();

  /** A request that is not read must not be the last one. */
  @Test
  void requestsAreReadAfterAFailure(@TempDir Path images) {
    RequestChannel channel = mock(RequestChannel.class);
    when(channel.next())
        .thenThrow(new IllegalStateException("of the channel"))
        .thenThrow(new StackOverflowError("of the channel"))
        .thenReturn(Optional.empty());
    LaunchedProcess ended = mock(LaunchedProcess.class);
    when(ended.identity()).thenReturn(new ProcessIdentity(Integer.MAX_VALUE, 1));
    SnapshotListener listener = mock(SnapshotListener.class);
    SnapshotPlan plan =
        SnapshotPlan.into(GpuCheckpoints.standard().store(images)).listener(listener).build();
    new RequestedSnapshots(GpuCheckpoints.standard(), ended, plan, channel).begin();
    verify(listener, timeout(PATIENCE)).ended(eq(false));
    verify(listener, never()).failed(any());
  }
}
