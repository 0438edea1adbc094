package dev.gpuprocess.examples.cli;

import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.DumpedFile;
import dev.gpuprocess.image.DumpedMemory;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.image.DumpedThread;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.report.ProcessMember;
import dev.gpuprocess.report.Step;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** An HTML page of what is in an image: one file without scripts, which refers to nothing else. */
final class ImagePage {

  private static final String HEAD =
      """
      <!DOCTYPE html>
      <html lang="en">
      <head>
      <meta charset="utf-8"/>
      <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
      <meta name="viewport" content="width=device-width, initial-scale=1"/>
      <title>%s</title>
      <style>
      body { font: 14px/1.45 system-ui, sans-serif; color: #1f2933; background: #f4f6f8; margin: 0 auto; max-width: 70rem; padding: 1.5rem }
      h1 { font-size: 1.5rem; margin: 0 0 .25rem }
      h2 { font-size: 1.1rem; margin: 0 0 .75rem }
      section { background: #fff; border: 1px solid #d9e0e6; border-radius: 6px; padding: 1rem 1.25rem; margin: 1rem 0; overflow-x: auto }
      table { border-collapse: collapse; width: 100%% }
      th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-top: 1px solid #edf0f3 }
      tr:first-child > * { border-top: 0 }
      thead th { color: #52606d; font-weight: 600; white-space: nowrap }
      tbody th { color: #52606d; font-weight: 600; width: 11rem }
      .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
      code { font: 12.5px ui-monospace, monospace; overflow-wrap: anywhere }
      .bar { display: block; margin-top: .2rem; min-width: 8rem; background: #edf0f3; border-radius: 3px }
      .bar span { display: block; height: .8rem; background: #2f7d32; border-radius: 3px }
      .differs { color: #b42318 }
      .quiet { color: #7b8794 }
      summary { cursor: pointer; margin-top: .5rem }
      details { margin-left: .25rem }
      @media (prefers-color-scheme: dark) {
      body { color: #d5dbe1; background: #15191d }
      section { background: #1d2329; border-color: #333c45 }
      th, td { border-color: #2a323a }
      thead th, tbody th { color: #9aa5b1 }
      .bar { background: #2a323a }
      .differs { color: #f97066 }
      }
      </style>
      </head>
      <body>
      """;

  private final StringBuilder page = new StringBuilder();
  private final ProcessImage image;
  private final Manifest manifest;
  private final DumpedTree tree;

  private ImagePage(ProcessImage image) {
    this.image = image;
    this.manifest = image.manifest();
    this.tree = image.describe();
  }

  /** Returns the page of an image. */
  static String of(ProcessImage image) {
    return new ImagePage(image).build();
  }

  private String build() {
    String title = "Image of process " + manifest.pid();
    page.append(HEAD.formatted(escape(title)));
    page.append("<h1>").append(escape(title)).append("</h1>\n");
    page.append("<code>").append(escape(String.join(" ", manifest.commandLine())));
    page.append("</code>\n");
    summary();
    processes();
    gpus();
    timings();
    machine();
    files();
    return page.append("</body>\n</html>\n").toString();
  }

  private void summary() {
    begin("Image");
    page.append("<table><tbody>\n");
    fact("Created", manifest.created());
    fact("Directory", image.directory());
    fact("Label", manifest.label());
    fact("Size", Output.bytes(manifest.bytes()));
    fact("GPU memory", Output.bytes(Moved.gpuBytes(manifest.members())));
    fact("Processes", tree.processes().size());
    fact("Isolated", manifest.isolated() ? "yes" : "no");
    fact("Plugin of CRIU", manifest.plugin());
    fact("Lost attributes", String.join(", ", manifest.lost()));
    fact("Format", manifest.formatVersion());
    page.append("</tbody></table>\n");
    end();
  }

  private void processes() {
    begin("Processes");
    long most = tree.processes().stream().mapToLong(DumpedProcess::bytesDumped).max().orElse(0);
    head(
        "#PID",
        "#Parent",
        "Role",
        "State",
        "#Threads",
        "#Files",
        "#Memory written by CRIU",
        "",
        "Name");
    for (DumpedProcess each : tree.processes()) {
      row(
          number(each.pid()),
          number(each.parent()),
          cell(role(each.pid())),
          cell(lower(each.state())),
          number(each.threads().size()),
          number(each.files().size()),
          number(Output.bytes(each.bytesDumped())),
          bar(each.bytesDumped(), most),
          code(each.name()));
    }
    foot();
    tree.processes().forEach(this::process);
    end();
  }

  private String role(int pid) {
    Optional<ImageProcess> known =
        manifest.processes().stream().filter(each -> each.pid() == pid).findFirst();
    return known
        .map(each -> lower(each.role()) + (each.rank() == null ? "" : ", rank " + each.rank()))
        .orElse("-");
  }

  private void process(DumpedProcess process) {
    page.append("<details><summary>Process ").append(process.pid()).append(": <code>");
    page.append(escape(String.join(" ", process.commandLine()))).append("</code></summary>\n");
    page.append("<table><tbody>\n");
    fact("Program", process.executable());
    fact("Working directory", process.workingDirectory());
    fact("User and group", process.uid() + ":" + process.gid());
    fact("Process group", process.group());
    fact("Session", process.session());
    fact(
        "Threads",
        process.threads().stream().map(ImagePage::thread).collect(Collectors.joining(", ")));
    page.append("</tbody></table>\n");
    head("Memory", "#Mappings", "#Mapped", "#In the image");
    for (DumpedMemory each : process.memory()) {
      row(
          cell(lower(each.kind())),
          number(each.mappings()),
          number(Output.bytes(each.mapped())),
          number(Output.bytes(each.dumped())));
    }
    foot();
    head("#Descriptor", "Kind", "File");
    for (DumpedFile each : process.files()) {
      row(number(each.descriptor()), cell(lower(each.kind())), code(each.text()));
    }
    foot();
    page.append("</details>\n");
  }

  private static String thread(DumpedThread thread) {
    return thread.id() + " " + thread.name() + (thread.filtered() ? " (seccomp)" : "");
  }

  private void gpus() {
    begin("GPUs");
    Map<String, String> kinds = manifest.machine() == null ? Map.of() : manifest.machine().gpus();
    long most =
        manifest.members().stream()
            .flatMap(each -> each.gpuBytes().values().stream())
            .mapToLong(Long::longValue)
            .max()
            .orElse(0);
    head("GPU", "Kind", "#PID", "#Memory", "");
    for (ProcessMember member : manifest.members()) {
      member
          .gpuBytes()
          .forEach(
              (gpu, bytes) ->
                  row(
                      code(gpu.text()),
                      cell(kinds.getOrDefault(gpu.text(), "-")),
                      number(member.pid()),
                      number(Output.bytes(bytes)),
                      bar(bytes, most)));
    }
    foot();
    page.append("<table><tbody>\n");
    fact("Driver", manifest.driverVersion());
    fact(
        "CUDA",
        "%s.%s".formatted(manifest.cudaVersion() / 1000, manifest.cudaVersion() % 1000 / 10));
    fact("Memory files", manifest.memoryFiles().size());
    page.append("</tbody></table>\n");
    end();
  }

  private void timings() {
    begin("Timings");
    List<Step> steps = manifest.steps();
    long longest = steps.stream().mapToLong(ImagePage::microseconds).max().orElse(0);
    head("Step", "#PID", "#Time", "#Bytes", "#Rate", "");
    for (Step each : steps) {
      row(
          cell(each.name()),
          number(each.pid()),
          number(seconds(each.duration())),
          number(each.bytes() == 0 ? "" : Output.bytes(each.bytes())),
          number(rate(each)),
          bar(microseconds(each), longest));
    }
    foot();
    DumpReport report = tree.report();
    if (report != null) {
      page.append("<table><tbody>\n");
      fact("Stopping the processes", seconds(report.freezing()));
      fact("Processes stopped", seconds(report.frozen()));
      fact("Copying memory", seconds(report.memory()));
      fact("Writing memory", seconds(report.write()));
      fact("Memory written", Output.bytes(report.bytes()));
      page.append("</tbody></table>\n");
    }
    end();
  }

  private static long microseconds(Step step) {
    return step.duration().toNanos() / 1000;
  }

  private static String rate(Step step) {
    double rate = step.bytesPerSecond();
    return rate == 0 ? "" : Output.bytes((long) rate) + "/s";
  }

  private void machine() {
    begin("Machine");
    page.append("<table><tbody>\n");
    fact("Kernel", manifest.kernel());
    fact("CRIU", manifest.criuVersion());
    ImageMachine machine = manifest.machine();
    if (machine != null) {
      fact("CPU", machine.cpu());
      fact("Architecture", machine.architecture());
      fact("Instructions", String.join(" ", machine.cpuFeatures()));
    }
    page.append("</tbody></table>\n");
    differences();
    if (machine != null) {
      page.append("<details><summary>Programs and shared libraries</summary>\n");
      head("File", "#Size");
      machine.files().forEach(each -> row(code(each.path()), number(Output.bytes(each.bytes()))));
      foot();
      page.append("</details>\n");
    }
    end();
  }

  private void differences() {
    if (image.differences().isEmpty()) {
      page.append("<p class=\"quiet\">The machine that made this page differs in nothing.</p>\n");
      return;
    }
    head("Differs here", "In the image", "On the machine of this page", "");
    image
        .differences()
        .forEach(
            each ->
                row(
                    cell(each.subject()),
                    code(each.inImage()),
                    code(each.here()),
                    each.prevents() ? "<td class=\"differs\">prevents a restore</td>" : cell("")));
    foot();
  }

  private void files() {
    begin("Files");
    long most = manifest.files().values().stream().mapToLong(Long::longValue).max().orElse(0);
    page.append("<details><summary>").append(manifest.files().size());
    page.append(" files</summary>\n");
    head("File", "#Size", "");
    manifest
        .files()
        .forEach((path, bytes) -> row(code(path), number(Output.bytes(bytes)), bar(bytes, most)));
    foot();
    page.append("</details>\n");
    end();
  }

  private void begin(String heading) {
    page.append("<section>\n<h2>").append(escape(heading)).append("</h2>\n");
  }

  private void end() {
    page.append("</section>\n");
  }

  /** Begins a table; a heading that begins with {@code #} is one of numbers. */
  private void head(String... headings) {
    page.append("<table><thead><tr>");
    for (String each : headings) {
      page.append(
          each.startsWith("#")
              ? "<th class=\"number\">" + escape(each.substring(1))
              : "<th>" + escape(each));
      page.append("</th>");
    }
    page.append("</tr></thead><tbody>\n");
  }

  private void row(String... cells) {
    page.append("<tr>").append(String.join("", cells)).append("</tr>\n");
  }

  private void foot() {
    page.append("</tbody></table>\n");
  }

  private void fact(String name, @Nullable Object value) {
    if (value != null && !value.toString().isEmpty()) {
      row("<th>" + escape(name) + "</th>", cell(value));
    }
  }

  private static String cell(Object value) {
    return "<td>" + escape(value.toString()) + "</td>";
  }

  private static String number(Object value) {
    return "<td class=\"number\">" + escape(value.toString()) + "</td>";
  }

  private static String code(String text) {
    return "<td><code>" + escape(text) + "</code></td>";
  }

  private static String bar(long part, long most) {
    return String.format(
        Locale.ROOT,
        "<td><span class=\"bar\"><span style=\"width: %.1f%%\"></span></span></td>",
        most <= 0 ? 0.0 : 100.0 * part / most);
  }

  private static String lower(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }

  private static String seconds(Duration time) {
    return String.format(Locale.ROOT, "%.3f s", time.toNanos() / 1e9);
  }

  /** Names and paths are from the processes, which may be anything. */
  private static String escape(String text) {
    return Output.printable(text)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\"", "&quot;")
        .replace("'", "&#39;");
  }
}
