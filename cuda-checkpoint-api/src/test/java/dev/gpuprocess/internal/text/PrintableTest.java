package dev.gpuprocess.internal.text;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.image.DumpedFile;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import org.junit.jupiter.api.Test;

/** Hostile names in messages and logs. */
@OutsideUse("D6")
class PrintableTest {

  /** A newline, an escape sequence that sets the title, a C1 control, and right-to-left text. */
  private static final String HOSTILE =
      "a\nOK       libcuda: fine\r\u001b]0;owned\u0007\u009b2J\u202egnp\u2066\u2028\ud800";

  private static void assertHarmless(String text) {
    assertTrue(
        text.codePoints()
            .noneMatch(
                c -> c < ' ' || (c > '~' && c < 0xa0) || c == 0x202e || c == 0x2066 || c == 0x2028),
        () -> Printable.of(text));
  }

  @Test
  void controlCharactersAreEscaped() {
    assertEquals(
        "a\\nOK       libcuda: fine\\r\\u001b]0;owned\\u0007\\u009b2J\\u202egnp\\u2066\\u2028\\ud800",
        Printable.of(HOSTILE));
  }

  @Test
  void wordsOfAllLanguagesAreKept() {
    String words = "Übergröße naïve 日本語 \uD83D\uDE00 a\\b 'x'";
    assertEquals(words, Printable.of(words));
    assertEquals("", Printable.of(""));
  }

  @Test
  void aLongTextIsCut() {
    assertEquals("aaa...", Printable.of("a".repeat(4), 3));
    assertEquals("aaa", Printable.of("aaa", 3));
    assertTrue(Printable.of("\n".repeat(50_000_000)).length() < 40_000);
  }

  @Test
  void messagesFindingsAndResourcesAreEscaped() {
    assertHarmless(new NoSuchProcessException(HOSTILE, Failure.of("dump", 1)).getMessage());
    UnsupportedResource resource =
        new UnsupportedResource(UnsupportedResource.Kind.OTHER, 1, "descriptor 1", HOSTILE, null);
    assertHarmless(resource.toString());
    assertEquals(HOSTILE, resource.name(), "data stay as they are");
    Finding finding = new Finding(Severity.WARNING, HOSTILE, HOSTILE, HOSTILE, resource);
    assertHarmless(finding.toString());
    assertHarmless(finding.what());
    assertFalse(
        new dev.gpuprocess.report.Diagnosis(java.util.List.of(finding))
            .toString()
            .lines()
            .anyMatch(line -> line.startsWith("OK")));
  }

  @Test
  void filesOfAnImageAreEscaped() {
    assertHarmless(new DumpedFile(3, 1, DumpedFile.Kind.FILE, HOSTILE).toString());
  }
}
