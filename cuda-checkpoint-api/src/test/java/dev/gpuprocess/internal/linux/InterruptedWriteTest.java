package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.AdditionalMatchers.aryEq;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.ArgumentMatchers.anyLong;
import static org.mockito.Mockito.CALLS_REAL_METHODS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.mockStatic;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import java.nio.file.FileSystemException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.mockito.MockedStatic;

/** Records are written and read completely, whatever signals arrive. */
class InterruptedWriteTest {

  private static final Path FILE = Path.of("/run/record");
  private static final int DESCRIPTOR = 7;

  private final LibcFunctions libc = mock(LibcFunctions.class);

  @Test
  void writesTheRestAfterASignalAndAfterAShortWrite() throws Exception {
    when(libc.pwrite(anyInt(), any(byte[].class), anyLong(), anyLong())).thenReturn(-1L, 1L, 2L);
    try (MockedStatic<Libc> errno = mockStatic(Libc.class, CALLS_REAL_METHODS)) {
      errno.when(Libc::errno).thenReturn(Libc.EINTR);
      Descriptors.write(libc, DESCRIPTOR, FILE, new byte[] {1, 2, 3}, 10);
    }
    verify(libc).pwrite(anyInt(), aryEq(new byte[] {2, 3}), anyLong(), anyLong());
  }

  @Test
  void readsAgainAfterASignal() throws Exception {
    when(libc.pread(anyInt(), any(byte[].class), anyLong(), anyLong())).thenReturn(-1L, 3L);
    byte[] bytes = new byte[4];
    try (MockedStatic<Libc> errno = mockStatic(Libc.class, CALLS_REAL_METHODS)) {
      errno.when(Libc::errno).thenReturn(Libc.EINTR);
      assertEquals(3, Descriptors.read(libc, DESCRIPTOR, FILE, bytes, 0));
    }
    assertArrayEquals(new byte[4], bytes);
  }

  /** A full disk is recognized by the text of the C library, which is in the user's language. */
  @Test
  void fullDiskIsOneInEachLanguage() {
    when(libc.pwrite(anyInt(), any(byte[].class), anyLong(), anyLong())).thenReturn(-1L);
    try (MockedStatic<Libc> errno = mockStatic(Libc.class, CALLS_REAL_METHODS)) {
      errno.when(Libc::errno).thenReturn(Libc.ENOSPC);
      FileSystemException full =
          assertThrows(
              FileSystemException.class,
              () -> Descriptors.write(libc, DESCRIPTOR, FILE, new byte[3], 0));
      assertTrue(Descriptors.saysFull(full.getReason()), full.getReason());
    }
  }
}
