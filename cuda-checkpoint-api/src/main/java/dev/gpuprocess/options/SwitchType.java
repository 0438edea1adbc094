package dev.gpuprocess.options;

import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Map.Entry;
import java.util.TreeMap;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The values of a switch of CRIU, and their texts.
 *
 * @param <T> the type of the values
 * @param form the form of the text for people, such as {@code BYTES}
 * @param none the value of a switch that was not set; null for none
 * @param parse reads a text, given the value before it: a list gets another element
 * @param print returns the texts of a value; a list has one for each element
 */
record SwitchType<T>(
    String form,
    @Nullable T none,
    BiFunction<@Nullable T, String, T> parse,
    Function<T, List<String>> print) {

  private static final Pattern BYTES =
      Pattern.compile("(\\d{1,15})([KMG]?)(iB)?", Pattern.CASE_INSENSITIVE);

  private static <T> SwitchType<T> of(
      String form, @Nullable T none, Function<String, T> parse, Function<T, String> print) {
    return new SwitchType<>(
        form, none, (before, text) -> parse.apply(text), value -> List.of(print.apply(value)));
  }

  /** A switch that is on or off, and is switched on by its name, or by a word in its place. */
  static SwitchType<Boolean> flag(String on, String off) {
    return of(
        on.isEmpty() ? "" : on,
        false,
        text -> {
          if (text.equals(on) || text.isEmpty() || text.equals("true")) {
            return true;
          }
          if (text.equals(off) || text.equals("false")) {
            return false;
          }
          throw new IllegalArgumentException(
              "is "
                  + (on.isEmpty() ? "true" : on)
                  + " or "
                  + (off.isEmpty() ? "false" : off)
                  + ", not "
                  + text);
        },
        value -> value ? on : "false");
  }

  static SwitchType<String> text(String form, UnaryOperator<String> check) {
    return of(form, null, check, value -> value);
  }

  static SwitchType<Path> path(String form) {
    return of(form, null, SwitchType::nativePath, NativePath::text);
  }

  private static Path nativePath(String text) {
    if (text.isEmpty()) {
      throw new IllegalArgumentException("needs a path");
    }
    return NativePath.of(text);
  }

  /** A number of bytes below 4 GiB; K, M and G may follow it. */
  static SwitchType<Long> bytes(long none) {
    return of("BYTES", none, SwitchType::bytes, String::valueOf);
  }

  private static long bytes(String text) {
    Matcher parts = BYTES.matcher(text);
    if (!parts.matches()) {
      throw new IllegalArgumentException(
          "is a number of bytes such as 67108864 or 64M, not " + text);
    }
    int shift = 10 * " KMG".indexOf(parts.group(2).toUpperCase(Locale.ROOT));
    return Long.parseLong(parts.group(1)) << (parts.group(2).isEmpty() ? 0 : shift);
  }

  static SwitchType<Integer> number(String form, int none) {
    return of(
        form,
        none,
        text -> {
          if (!text.matches("\\d{1,9}")) {
            throw new IllegalArgumentException("is a number, not " + text);
          }
          return Integer.parseInt(text);
        },
        String::valueOf);
  }

  static SwitchType<Duration> seconds(Duration none) {
    return of(
        "SECONDS",
        none,
        text -> {
          if (!text.matches("\\d{1,9}")) {
            throw new IllegalArgumentException("is a number of seconds, not " + text);
          }
          return Duration.ofSeconds(Long.parseLong(text));
        },
        value -> String.valueOf(Durations.seconds(value)));
  }

  /** One of some values, each with its text. */
  static <E extends Enum<E>> SwitchType<E> choice(@Nullable E none, Map<E, String> texts) {
    String form = String.join("|", new TreeMap<>(texts).values());
    return of(
        form,
        none,
        text ->
            texts.entrySet().stream()
                .filter(each -> each.getValue().equals(text))
                .map(Entry::getKey)
                .findFirst()
                .orElseThrow(
                    () -> new IllegalArgumentException("is one of " + form + ", not " + text)),
        texts::get);
  }

  /** A list, of which each text is one element. */
  static <E> SwitchType<List<E>> list(
      String form, Function<String, E> parse, Function<E, String> print) {
    return new SwitchType<>(
        form,
        List.of(),
        (before, text) -> plus(before, List.of(parse.apply(text))),
        value -> value.stream().map(print).toList());
  }

  /** Returns a list with further elements; one that is in it already stays where it is. */
  static <E> List<E> plus(@Nullable List<E> before, List<E> more) {
    return Stream.concat(before == null ? Stream.of() : before.stream(), more.stream())
        .distinct()
        .toList();
  }

  static SwitchType<List<Path>> paths() {
    return list("PATH", SwitchType::nativePath, NativePath::text);
  }

  static SwitchType<List<String>> words(String form) {
    return list(form, word -> word, word -> word);
  }

  /**
   * A map, of which each text is one entry.
   *
   * @param entry matches the text; its groups {@code key} and {@code value} are the entry
   * @param print returns the text of an entry
   */
  static <V> SwitchType<Map<String, V>> map(
      String form,
      Pattern entry,
      Function<String, V> parse,
      Function<Entry<String, V>, String> print) {
    return new SwitchType<>(
        form,
        Map.of(),
        (before, text) -> {
          Matcher parts = entry.matcher(text);
          if (!parts.matches()) {
            throw new IllegalArgumentException("has the form " + form + ", not " + text);
          }
          String key = parts.group("key");
          return plus(before, key == null ? "" : key, parse.apply(parts.group("value")));
        },
        value -> value.entrySet().stream().map(print).collect(Collectors.toList()));
  }

  /** Returns a map with another entry, which replaces one with the same key. */
  static <V> Map<String, V> plus(@Nullable Map<String, V> before, String key, V value) {
    Map<String, V> all = new TreeMap<>(before == null ? Map.of() : before);
    all.put(key, value);
    return Collections.unmodifiableMap(all);
  }

  /** Returns a map without a key. */
  static <V> Map<String, V> minus(Map<String, V> before, String key) {
    Map<String, V> all = new TreeMap<>(before);
    all.remove(key);
    return Collections.unmodifiableMap(all);
  }

  /** Returns the texts of a value with the name of its switch, such as {@code ghost-limit=5}. */
  List<String> settings(String name, T value) {
    List<String> all = new ArrayList<>();
    for (String text : print.apply(value)) {
      all.add(text.isEmpty() ? name : name + "=" + text);
    }
    return all;
  }
}
