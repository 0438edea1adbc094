package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.InstalledCriu;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Tests are skipped without CRIU only if no CRIU was named. */
class InstalledCriuTest {

  private static final RpcCriuDriver NONE = new RpcCriuDriver(Path.of("/no/criu"));

  @Test
  void whereNoneWasNamed_testsAreSkippedWithTheReason() {
    Optional<String> reason = InstalledCriu.missing(NONE, Map.of("PATH", "/bin"), " ");
    assertTrue(reason.orElseThrow().startsWith("needs real CRIU: "), reason::toString);
    assertTrue(reason.orElseThrow().contains("/no/criu"), reason::toString);
  }

  @Test
  void oneThatWasNamedAndDoesNotWork_isAFailure() {
    assertPromiseBroken(Map.of("GPUPROCESS_CRIU", "/no/criu"), "");
    assertPromiseBroken(Map.of(), "/no/criu");
  }

  private static void assertPromiseBroken(Map<String, String> environment, String property) {
    AssertionError failure =
        assertThrows(
            AssertionError.class, () -> InstalledCriu.missing(NONE, environment, property));
    assertEquals(0, failure.getMessage().indexOf("the CRIU that was named does not work: "));
    assertTrue(failure.getMessage().contains("/no/criu"), failure.getMessage());
  }
}
