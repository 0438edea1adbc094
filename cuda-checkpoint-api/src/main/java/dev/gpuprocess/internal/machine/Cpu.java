package dev.gpuprocess.internal.machine;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A CPU, as {@code /proc/cpuinfo} describes it.
 *
 * @param name of the model; empty if the kernel does not report it
 * @param features the instructions that programs can use, in order; empty if the kernel does not
 *     report them
 */
record Cpu(String name, List<String> features) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * The flags of x86 for instructions that a program selects at its start, and without which it
   * crashes. Other flags are for the kernel, or about speed.
   */
  private static final Pattern USED_BY_PROGRAMS =
      Pattern.compile(
          "mmx|cmov|cx16|fxsr|lahf_lm|pni|ssse3|sse.*|avx.*|amx_.*|fma4?|f16c|xop|tbm|abm|bmi[12]"
              + "|popcnt|movbe|v?aes|v?pclmulqdq|gfni|sha_ni|sha512|sm[34]|rdrand|rdseed|rdpid"
              + "|rdtscp|adx|fsgsbase|clflush|clflushopt|clwb|clzero|cldemote|movdiri|movdir64b"
              + "|waitpkg|serialize|rtm|pku|ospke|user_shstk|xsave|xsaveopt|xsavec|xgetbv1");

  private static final Pattern WORD = Pattern.compile("[a-z0-9_.]{1,40}");

  private static volatile @Nullable Cpu known;

  /** Returns the CPU of this machine. A failed reading is repeated. */
  static Cpu here() {
    Cpu before = known;
    return before == null ? read() : before;
  }

  private static Cpu read() {
    try (BufferedReader lines =
        Files.newBufferedReader(ProcFs.kernel("cpuinfo"), StandardCharsets.ISO_8859_1)) {
      Cpu here = of(lines);
      known = here;
      return here;
    } catch (IOException e) {
      LOG.warn("the CPU of this machine cannot be read: {}", e.toString());
      return new Cpu("", List.of());
    }
  }

  /** Parses the first CPU; all CPUs of a machine have the same instructions. */
  static Cpu of(BufferedReader lines) throws IOException {
    String name = "";
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      int colon = line.indexOf(':');
      String key = colon < 0 ? "" : line.substring(0, colon).strip();
      String value = colon < 0 ? "" : line.substring(colon + 1).strip();
      switch (key) {
        case "model name" -> name = ThisMachine.recordedName(value);
        case "flags" -> {
          return new Cpu(
              name, words(value).filter(each -> USED_BY_PROGRAMS.matcher(each).matches()).toList());
        }
        case "Features" -> { // of Arm, which lists only what programs can use
          return new Cpu(name, words(value).toList());
        }
        default -> {
          // another property
        }
      }
    }
    return new Cpu(name, List.of());
  }

  private static Stream<String> words(String text) {
    return Stream.of(text.split(" "))
        .filter(each -> WORD.matcher(each).matches())
        .distinct()
        .sorted();
  }
}
