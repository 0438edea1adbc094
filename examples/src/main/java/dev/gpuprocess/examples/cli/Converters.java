package dev.gpuprocess.examples.cli;

import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.RetentionPolicy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** The forms of option values: times, GPU maps, retention intervals. */
final class Converters {

  private static final Pattern TIME = Pattern.compile("(\\d{1,9})(ms|s|m|h|d)");

  private Converters() {}

  static void register(CommandLine tool) {
    tool.registerConverter(Attribute.class, Converters::attribute);
    tool.registerConverter(Duration.class, Converters::time);
    tool.registerConverter(Path.class, Converters::path);
    tool.registerConverter(GpuMap.class, Converters::gpuMap);
    tool.registerConverter(RetentionPolicy.OnePer.class, Converters::onePer);
  }

  /** An empty path is the current directory, and in a script a variable that is not set. */
  private static Path path(String text) {
    if (text.isEmpty()) {
      throw new TypeConversionException("the path is empty");
    }
    return Path.of(text);
  }

  /** Reads {@code 64GiB}, {@code 512MiB} or a number of bytes. */
  static final class Size implements ITypeConverter<Long> {

    private static final Pattern SIZE = Pattern.compile("(\\d{1,15})(B|KiB|MiB|GiB|TiB)?");

    @Override
    public Long convert(String text) {
      Matcher found = SIZE.matcher(text);
      if (!found.matches()) {
        throw new TypeConversionException(
            "'" + text + "' is not a size; write 64GiB, 512MiB or a number of bytes");
      }
      int power = found.group(2) == null ? 0 : Output.UNITS.indexOf(found.group(2));
      try {
        return Math.multiplyExact(Long.parseLong(found.group(1)), 1L << (10 * power));
      } catch (ArithmeticException e) {
        throw new TypeConversionException("'" + text + "' is too large");
      }
    }
  }

  /** Reads {@code 500ms}, {@code 30s}, {@code 10m}, {@code 1h} or {@code 2d}. */
  static Duration time(String text) {
    Matcher found = TIME.matcher(text);
    if (!found.matches()) {
      throw new TypeConversionException(
          "'" + text + "' is not a time; write 500ms, 30s, 10m, 1h or 2d");
    }
    long count = Long.parseLong(found.group(1));
    Duration time =
        switch (found.group(2)) {
          case "ms" -> Duration.ofMillis(count);
          case "s" -> Duration.ofSeconds(count);
          case "m" -> Duration.ofMinutes(count);
          case "h" -> Duration.ofHours(count);
          default -> Duration.ofDays(count);
        };
    if (time.isZero()) {
      throw new TypeConversionException("the time must be positive");
    }
    return time;
  }

  /** Reads {@code landlock} and other names of attributes. */
  static Attribute attribute(String text) {
    return Stream.of(Attribute.values())
        .filter(each -> each.text().equals(text))
        .findFirst()
        .orElseThrow(
            () ->
                new TypeConversionException(
                    "'%s' is not an attribute; the names are %s"
                        .formatted(
                            text, Stream.of(Attribute.values()).map(Attribute::text).toList())));
  }

  /** Reads {@code same}, {@code automatic}, the UUID of a GPU, or {@code OLD=NEW,...}. */
  static GpuMap gpuMap(String text) {
    try {
      return switch (text) {
        case "same" -> GpuMap.same();
        case "automatic" -> GpuMap.automatic();
        default -> text.contains("=") ? GpuMap.of(pairs(text)) : GpuMap.to(GpuUuid.of(text));
      };
    } catch (IllegalArgumentException e) {
      throw new TypeConversionException(e.getMessage());
    }
  }

  /** Reads {@code OLD=NEW,...}; a colon is accepted too. */
  static Map<GpuUuid, GpuUuid> pairs(String text) {
    Map<GpuUuid, GpuUuid> pairs = new TreeMap<>();
    for (String each : text.split(",", -1)) {
      String[] sides = each.split("[=:]", -1);
      if (sides.length != 2) {
        throw new IllegalArgumentException("'" + each + "' is not OLD=NEW, each a GPU's UUID");
      }
      if (pairs.put(uuid(sides[0]), uuid(sides[1])) != null) {
        throw new IllegalArgumentException(sides[0] + " cannot go to two GPUs");
      }
    }
    return pairs;
  }

  private static GpuUuid uuid(String text) {
    return GpuUuid.of(text.startsWith("GPU-") ? text : "GPU-" + text);
  }

  private static RetentionPolicy.OnePer onePer(String text) {
    String[] sides = text.split(":", -1);
    if (sides.length != 2) {
      throw new TypeConversionException(
          "'" + text + "' is not INTERVAL:SPAN, such as 1h:2d for one image an hour of two days");
    }
    return new RetentionPolicy.OnePer(time(sides[0]), time(sides[1]));
  }
}
