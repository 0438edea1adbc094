package dev.gpuprocess.internal.cuda;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mockStatic;

import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.launch.CudaJobFile;
import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.mockito.MockedStatic;

class SlowJobFileTest {

  /** The driver is there, and not to be installed. */
  @Test
  void slowDiskIsNotAMissingDriver() {
    try (SimulatedDriver driver = SimulatedDriver.builder().driverVersion(13010).create();
        MockedStatic<CudaJobFile> files = mockStatic(CudaJobFile.class)) {
      files.when(() -> CudaJobFile.isKnownTo(13010)).thenReturn(true);
      files.when(() -> CudaJobFile.open(7)).thenThrow(new IOException("no answer within 10 s"));
      LibCuda cuda = LibCuda.in(driver.directory());
      String message =
          assertThrows(OperationTimedOutException.class, () -> cuda.unlock(7)).getMessage();
      assertTrue(String.valueOf(message).contains("no answer within 10 s"), message);
    }
  }
}
