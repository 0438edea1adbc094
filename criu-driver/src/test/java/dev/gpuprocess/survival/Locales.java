package dev.gpuprocess.survival;

import java.util.List;
import java.util.Map;
import java.util.Random;

/**
 * What users have set: languages that write other digits, or other letters in upper case, and
 * character sets that cannot write most letters.
 */
final class Locales {

  private static final List<List<String>> LANGUAGES =
      List.of(
          language("en", "US"),
          language("de", "DE"),
          language("fa", "IR"),
          language("ar", "EG"),
          language("tr", "TR"),
          List.of("-Duser.language=th", "-Duser.country=TH", "-Duser.extensions=u-nu-thai"));

  private static final List<String> CHARSETS = List.of("C", "C.UTF-8", "POSIX");

  private Locales() {}

  private static List<String> language(String language, String country) {
    return List.of("-Duser.language=" + language, "-Duser.country=" + country);
  }

  /** Options of a JVM. */
  static List<String> options(Random random) {
    return LANGUAGES.get(random.nextInt(LANGUAGES.size()));
  }

  /** Variables of the environment. */
  static Map<String, String> environment(Random random) {
    return Map.of("LC_ALL", CHARSETS.get(random.nextInt(CHARSETS.size())));
  }
}
