package dev.gpuprocess.internal.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.never;
import static org.mockito.Mockito.times;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.internal.cuda.LibNvml.NvmlFunctions;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** NVML after the driver was loaded again, or a GPU was reset: only a new initialisation helps. */
class LibNvmlTest {

  private static final int UNINITIALIZED = 1;
  private static final int NO_PERMISSION = 4;
  private static final int GPU_IS_LOST = 15;

  private final NvmlFunctions nvml = mock(NvmlFunctions.class);
  private final AtomicInteger initialised = new AtomicInteger();

  @SuppressWarnings("unchecked")
  private LibNvml library() {
    when(nvml.nvmlInit_v2())
        .then(
            call -> {
              initialised.incrementAndGet();
              return 0;
            });
    NativeLibrary<NvmlFunctions> library = mock(NativeLibrary.class);
    when(library.get()).thenReturn(nvml);
    return new LibNvml(library);
  }

  private int untilSecond(int code) {
    return initialised.get() < 2 ? code : 0;
  }

  @ParameterizedTest
  @ValueSource(ints = {UNINITIALIZED, 9, GPU_IS_LOST, 16, 999})
  void isInitialisedAgain(int code) {
    LibNvml library = library();
    when(nvml.nvmlDeviceGetCount_v2(any())).then(call -> untilSecond(code));
    assertEquals(Optional.of(new GpuReading(List.of(), List.of())), library.read());
    assertEquals(2, initialised.get());
    verify(nvml, times(1)).nvmlShutdown();
  }

  @Test
  void gpuThatStaysLostDoesNotMakeEachReadingSlow() {
    LibNvml library = library();
    when(nvml.nvmlDeviceGetCount_v2(any())).thenReturn(GPU_IS_LOST);
    for (int i = 0; i < 5; i++) {
      assertEquals(1, library.read().orElseThrow().unreadable().size());
    }
    assertEquals(2, initialised.get());
  }

  @Test
  void otherFailuresAreReportedAtOnce() {
    LibNvml library = library();
    when(nvml.nvmlSystemGetDriverVersion(any(), anyInt())).thenReturn(NO_PERMISSION);
    assertEquals(Optional.empty(), library.driverVersion());
    verify(nvml, never()).nvmlShutdown();
  }
}
