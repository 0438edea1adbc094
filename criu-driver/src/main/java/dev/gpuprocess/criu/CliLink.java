package dev.gpuprocess.criu;

import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Requests as command lines.
 *
 * @param command what comes before CRIU's own arguments, such as {@code sudo -n criu}
 */
record CliLink(List<String> command) implements CriuLink {

  /** Copies the list. */
  CliLink {
    command = List.copyOf(command);
  }

  @Override
  public Outcome dump(DumpRequest request, boolean shellJob, Supervision supervision)
      throws IOException {
    List<String> arguments =
        CliOptions.of(
            request.options(),
            NetworkLocks.choose(request.options(), request.process()),
            request.process().pid());
    arguments.add("--tree=" + request.process().pid());
    if (shellJob) {
      arguments.add("--shell-job");
    }
    createOurs(request.work(), DUMP_LOG, StatsFile.DUMP);
    arguments.add("--log-file=" + DUMP_LOG);
    arguments.add(0, "dump");
    return make(criu_req_type.DUMP, arguments, request.images(), request.work(), supervision);
  }

  @Override
  public Outcome restore(RestoreRequest request, Supervision supervision) throws IOException {
    List<String> arguments = CliOptions.of(request.options(), request.pid());
    arguments.add("--restore-detached");
    createOurs(request.work(), RESTORE_LOG, StatsFile.RESTORE);
    arguments.add("--log-file=" + RESTORE_LOG);
    arguments.add(0, "restore");
    return make(criu_req_type.RESTORE, arguments, request.images(), request.work(), supervision);
  }

  @Override
  public Outcome check(Supervision supervision) throws IOException {
    return plain(criu_req_type.CHECK, List.of("check"), supervision);
  }

  @Override
  public Optional<Set<CriuFeature>> features() {
    return Optional.of(new CliFeatures(this).run());
  }

  /** Asks for one feature of the kernel. */
  Outcome feature(String name, Supervision supervision) throws IOException {
    return plain(criu_req_type.FEATURE_CHECK, List.of("check", "--feature=" + name), supervision);
  }

  /** Asks for what CRIU prints of its version. */
  Outcome version(Supervision supervision) throws IOException {
    return plain(criu_req_type.VERSION, List.of("--version"), supervision);
  }

  private Outcome plain(criu_req_type type, List<String> arguments, Supervision supervision)
      throws IOException {
    return new CliCall(type, full(arguments), null, supervision).make();
  }

  private Outcome make(
      criu_req_type type, List<String> arguments, Path images, Path work, Supervision supervision)
      throws IOException {
    try (ImageDirectories directories = ImageDirectories.open(images, work);
        StageScript script = StageScript.write(work)) {
      arguments.add("--images-dir=" + ImageDirectories.seenByOthers(directories.images()));
      arguments.add("--work-dir=" + ImageDirectories.seenByOthers(directories.work()));
      arguments.add("--libdir=" + CriuProcess.NO_PLUGINS);
      arguments.add(CriuProcess.NO_DEFAULTS);
      arguments.add("--action-script=" + script.file());
      return new CliCall(type, full(arguments), script, supervision).make();
    }
  }

  private List<String> full(List<String> arguments) {
    List<String> all = new ArrayList<>(command);
    all.addAll(arguments);
    return all;
  }

  /** A CRIU that is root writes into files that are there, and they stay ours to read. */
  private static void createOurs(Path work, String... names) throws IOException {
    if (!Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0)) {
      for (String name : names) {
        Files.createFile(work.resolve(name));
      }
    }
  }
}
