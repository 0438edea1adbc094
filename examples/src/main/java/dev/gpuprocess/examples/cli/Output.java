package dev.gpuprocess.examples.cli;

import com.google.gson.stream.JsonWriter;
import java.io.IOException;
import java.io.PrintStream;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The result of a command: a table or a sentence, or JSON with the same values. A record is a map
 * whose keys are the names of the JSON fields; a key that ends with {@code Bytes} has a size, or a
 * map of sizes, and the same key with {@code Known} whether these are all.
 */
final class Output {

  static final List<String> UNITS = List.of("B", "KiB", "MiB", "GiB", "TiB");

  private static final char LAST_PRINTED = '~';

  private final PrintStream out;
  private final boolean json;

  Output(PrintStream out, boolean json) {
    this.out = out;
    this.json = json;
  }

  boolean isJson() {
    return json;
  }

  /** Prints records: as a JSON array with all fields, or as a table with the named ones. */
  void table(List<Map<String, @Nullable Object>> records, String... columns) {
    if (json) {
      write(records);
      return;
    }
    List<List<String>> lines = new ArrayList<>();
    lines.add(List.of(columns).stream().map(Output::heading).toList());
    for (Map<String, @Nullable Object> each : records) {
      lines.add(List.of(columns).stream().map(name -> text(name, each)).toList());
    }
    int[] widths = new int[columns.length];
    for (List<String> line : lines) {
      for (int i = 0; i < widths.length; i++) {
        widths[i] = Math.max(widths[i], line.get(i).length());
      }
    }
    for (List<String> line : lines) {
      StringBuilder text = new StringBuilder();
      for (int i = 0; i < widths.length; i++) {
        text.append(line.get(i)).append(" ".repeat(widths[i] - line.get(i).length() + 2));
      }
      out.println(text.toString().stripTrailing());
    }
  }

  /** Prints one record: as a JSON object, or as a sentence. */
  void result(Map<String, @Nullable Object> value, String sentence) {
    if (json) {
      write(value);
    } else {
      out.println(printable(sentence));
    }
  }

  /** Prints one record: as a JSON object, or as lines of name and value. */
  void details(Map<String, @Nullable Object> value) {
    if (json) {
      write(value);
      return;
    }
    int width = value.keySet().stream().mapToInt(name -> heading(name).length()).max().orElse(0);
    value.forEach(
        (name, content) ->
            out.println(
                heading(name)
                    + " ".repeat(width - heading(name).length() + 2)
                    + text(name, value)));
  }

  /** Prints a text that has no other form. */
  void text(String text) {
    out.println(text);
  }

  /** Prints a failure as a JSON object; people read it on standard error. */
  void failure(Map<String, @Nullable Object> value) {
    if (json) {
      write(Map.of("error", value));
    }
  }

  /** Returns a size with a unit. */
  static String bytes(long bytes) {
    int unit = 0;
    double value = (double) bytes;
    while (value >= 1024 && unit < UNITS.size() - 1) {
      value /= 1024;
      unit++;
    }
    return String.format(Locale.ROOT, unit == 0 ? "%.0f %s" : "%.1f %s", value, UNITS.get(unit));
  }

  /** Returns a text from outside without what a terminal would act on. */
  static String printable(String text) {
    return text.codePoints()
        .mapToObj(point -> isPlain(point) ? Character.toString(point) : "?")
        .collect(Collectors.joining());
  }

  private static boolean isPlain(int point) {
    return point == '\n' || !(Character.isISOControl(point) || isFormat(point));
  }

  private static boolean isFormat(int point) {
    return Character.getType(point) == Character.FORMAT;
  }

  private static String heading(String name) {
    String stem = name.endsWith("Bytes") ? name.substring(0, name.length() - 5) : name;
    return name.equals("gpuBytes")
        ? "GPU MEMORY"
        : stem.replaceAll("([A-Z])", " $1").toUpperCase(Locale.ROOT);
  }

  private static String text(String name, Map<String, @Nullable Object> record) {
    Object value = record.get(name);
    if (value == null) {
      return "-";
    }
    if (value instanceof Number number) {
      if (name.endsWith("Bytes")) {
        return bytes(number.longValue());
      }
      return number instanceof Double real
          ? String.format(Locale.ROOT, "%.3f", real)
          : number.toString();
    }
    if (value instanceof Map<?, ?> map) {
      return sum(map, record.get(name + "Known"));
    }
    String all =
        value instanceof Collection<?> words
            ? words.stream().map(String::valueOf).collect(Collectors.joining(" "))
            : value.toString();
    return printable(all).replace('\n', ' ');
  }

  /** Returns the sum of some sizes, of which all are known, some, or it is not known how many. */
  private static String sum(Map<?, ?> sizes, @Nullable Object known) {
    if (sizes.isEmpty() && !Boolean.TRUE.equals(known)) {
      return "-";
    }
    long sum = sizes.values().stream().mapToLong(each -> ((Number) each).longValue()).sum();
    return (Boolean.FALSE.equals(known) ? ">= " : "") + bytes(sum);
  }

  private void write(Object value) {
    out.println(json(value, "  "));
  }

  /** Returns a record as JSON in one line. */
  static String line(Map<String, @Nullable Object> value) {
    return json(value, "");
  }

  /** Returns JSON in ASCII: in the POSIX locale Java prints a question mark for the rest. */
  private static String json(Object value, String indent) {
    StringWriter text = new StringWriter();
    try (JsonWriter writer = new JsonWriter(text)) {
      writer.setIndent(indent);
      write(writer, value);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    // Only strings have other characters.
    return text.toString()
        .chars()
        .mapToObj(
            c ->
                c > LAST_PRINTED ? String.format(Locale.ROOT, "\\u%04x", c) : Character.toString(c))
        .collect(Collectors.joining());
  }

  private static void write(JsonWriter writer, @Nullable Object value) throws IOException {
    if (value instanceof Map<?, ?> map) {
      writer.beginObject();
      for (Map.Entry<?, ?> each : map.entrySet()) {
        writer.name(String.valueOf(each.getKey()));
        write(writer, each.getValue());
      }
      writer.endObject();
    } else if (value instanceof Collection<?> all) {
      writer.beginArray();
      for (Object each : all) {
        write(writer, each);
      }
      writer.endArray();
    } else if (value instanceof Number number) {
      writer.value(number);
    } else if (value instanceof Boolean flag) {
      writer.value(flag);
    } else if (value == null) {
      writer.nullValue();
    } else {
      writer.value(value.toString());
    }
  }
}
