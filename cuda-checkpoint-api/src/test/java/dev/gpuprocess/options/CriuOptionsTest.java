package dev.gpuprocess.options;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The table of CRIU's switches, and the texts of its values. */
class CriuOptionsTest {

  /** A page of the manual, of which the table is generated. */
  private static final Path PAGE = Path.of("..", "docs", "criu-options.md");

  /** A value of each form. */
  private static final Map<String, String> VALUES =
      Map.ofEntries(
          Map.entry("", ""),
          Map.entry("BYTES", "=1048576"),
          Map.entry("SECONDS", "=7"),
          Map.entry("1-4", "=4"),
          Map.entry("PATH", "=/x"),
          Map.entry("TYPE", "=squashfs"),
          Map.entry("NAME", "=cpu"),
          Map.entry("NOTATION", "=p"),
          Map.entry("CONTEXT", "=c"),
          Map.entry("apparmor:PROFILE|selinux:CONTEXT", "=apparmor:p"),
          Map.entry("KIND[ID][:NAME]", "=unix[7]"),
          Map.entry("[CONTROLLER:]PATH", "=cpu:/job"),
          Map.entry("fd[NUMBER]:RESOURCE", "=fd[3]:pipe:[7]"),
          Map.entry("RESOURCE=PATH", "=pipe:[8]=/dev/null"),
          Map.entry("KIND:PATH[,USER,GROUP]", "=user:/x,1,2"));

  private static String example(CriuSwitch<?> option) {
    String form = option.form();
    return option.name() + VALUES.getOrDefault(form, "=" + form.replaceFirst("\\|.*", ""));
  }

  private static List<String> settings(String... settings) {
    CriuOptions.Builder all = CriuOptions.builder();
    List.of(settings).forEach(all::set);
    return all.build().settings(each -> true);
  }

  private static void refused(String message, String setting) {
    IllegalArgumentException e =
        assertThrows(IllegalArgumentException.class, () -> CriuOptions.builder().set(setting));
    assertEquals(message, e.getMessage());
  }

  @Test
  void eachSwitchReadsWhatItWrites() {
    for (CriuSwitch<?> option : CriuSwitch.all()) {
      String example = example(option);
      List<String> set = settings(example);
      assertTrue(set.contains(example), option + " " + set);
      CriuOptions built = CriuOptions.builder().set(example).build();
      assertTrue(built.isSet(option), example);
      assertEquals(set, settings(set.toArray(String[]::new)));
      assertFalse(option.help().isEmpty());
    }
    assertEquals(
        CriuSwitch.all().size(),
        CriuSwitch.all().stream().map(CriuSwitch::name).distinct().count());
  }

  @Test
  void textAndMethodsSetTheSame() {
    CriuOptions byText =
        CriuOptions.builder()
            .set("tcp-close")
            .set("ghost-limit=64M")
            .set("external=unix[7]")
            .set("external=unix[8]")
            .set("timeout=7")
            .set("inherit-fd=fd[3]:pipe:[7]")
            .build();
    CriuOptions byMethods =
        CriuOptions.builder()
            .tcpClose(true)
            .ghostLimit(64L << 20)
            .external(External.unixSocket(7), External.unixSocket(8))
            .freezeTimeout(Duration.ofSeconds(7))
            .inherit("pipe:[7]", 3)
            .build();
    assertEquals(byMethods.toString(), byText.toString());
    assertEquals(List.of("tcp-close=false"), settings("tcp-close", "tcp-close=false"));
    assertEquals(List.of("manage-cgroups=soft", "cgroup-root=/x"), settings("cgroup-root=/x"));
  }

  @Test
  void refusesUnknownNamesAndValues() {
    refused("CRIU has no option 'tcp-clse' that can be set; similar: tcp-close", "tcp-clse");
    refused("CRIU has no option 'unix' that can be set; similar: ext-unix-sk", "unix");
    refused(
        "CRIU has no option 'page-server' that can be set: docs/criu-options.md lists them",
        "page-server=1");
    refused("CRIU's option ghost-limit needs a value: ghost-limit=BYTES", "ghost-limit");
    refused(
        "CRIU's option ghost-limit is a number of bytes such as 67108864 or 64M, not big",
        "ghost-limit=big");
    refused(
        "CRIU's option network-lock is one of automatic|iptables|nftables|skip, not tables",
        "network-lock=tables");
    refused("CRIU's option tcp-close is true or false, not maybe", "tcp-close=maybe");
    refused(
        "CRIU's option join-ns has the form KIND:PATH[,USER,GROUP], not pid:/x", "join-ns=pid:/x");
    assertThrows(IllegalStateException.class, () -> settings("tcp-close", "tcp-established"));
  }

  @Test
  void strongerOptionsOverrideWeakerOnes() {
    CriuOptions weaker =
        CriuOptions.builder().tcpEstablished(true).fileLocks(true).root(Path.of("/")).build();
    CriuOptions stronger = CriuOptions.builder().tcpClose(true).set("file-locks=false").build();
    assertEquals(
        List.of("tcp-close", "file-locks=false", "root=/"),
        stronger.over(weaker).settings(each -> true));
    assertEquals(weaker.toString(), CriuOptions.ofDefaults().over(weaker).toString());
  }

  @Test
  void thePageHasTheTable() throws IOException {
    String table =
        CriuSwitch.all().stream()
            .map(
                each ->
                    "| `%s` | %s | %s | %s |\n"
                        .formatted(
                            (each.form().isEmpty() ? each.name() : each.name() + "=" + each.form())
                                .replace("|", "\\|"),
                            each.use().name().toLowerCase(Locale.ROOT),
                            each.defaultText(),
                            each.help().replace("|", "\\|")))
            .collect(Collectors.joining());
    String page = Files.readString(PAGE);
    assertTrue(page.contains(table), () -> PAGE + " lacks this table:\n" + table);
  }
}
