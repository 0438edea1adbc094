package dev.gpuprocess.internal.launch;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.fixtures.ProgramRun;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** The native files that are loaded into programs of others. */
class NativeFileTest {

  /** Programs of another C library, such as musl, do not start with a function that is missing. */
  @Test
  void theForkHandlerNeedsNoFunctionOfGlibcAlone() throws Exception {
    assumeTrue(Files.exists(Path.of("/usr/bin/nm")), "binutils is not installed");
    String functions =
        ProgramRun.of("nm", "-D", NativeFile.installed(NativeFile.FORK_HANDLER).toString())
            .succeed();
    assertTrue(functions.contains(" w __register_atfork"), functions);
    assertFalse(functions.contains(" U __"), functions);
  }
}
