package dev.gpuprocess.criu;

import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.spi.CriuFeature;
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
    addPlaces(arguments, request.images(), request.work(), DUMP_LOG);
    createOurs(request.work(), DUMP_LOG, StatsFile.DUMP);
    return make(criu_req_type.DUMP, "dump", arguments, request.work(), supervision);
  }

  @Override
  public Outcome restore(RestoreRequest request, Supervision supervision) throws IOException {
    List<String> arguments = CliOptions.of(request.options(), request.pid());
    arguments.add("--restore-detached");
    addPlaces(arguments, request.images(), request.work(), RESTORE_LOG);
    createOurs(request.work(), RESTORE_LOG, StatsFile.RESTORE);
    return make(criu_req_type.RESTORE, "restore", arguments, request.work(), supervision);
  }

  @Override
  public Outcome check(Supervision supervision) throws IOException {
    return plain(criu_req_type.CHECK, "check", supervision);
  }

  @Override
  public Optional<Set<CriuFeature>> features() {
    return Optional.empty();
  }

  /** Asks for what CRIU prints of its version. */
  Outcome version(Supervision supervision) throws IOException {
    return plain(criu_req_type.VERSION, "--version", supervision);
  }

  private Outcome plain(criu_req_type type, String argument, Supervision supervision)
      throws IOException {
    return new CliCall(type, full(List.of(argument)), null, supervision).make();
  }

  private Outcome make(
      criu_req_type type, String name, List<String> arguments, Path work, Supervision supervision)
      throws IOException {
    try (StageScript script = StageScript.write(work)) {
      arguments.add(0, name);
      arguments.add("--libdir=" + CriuProcess.NO_PLUGINS);
      arguments.add("--action-script=" + script.file());
      return new CliCall(type, full(arguments), script, supervision).make();
    }
  }

  private List<String> full(List<String> arguments) {
    List<String> all = new ArrayList<>(command);
    all.addAll(arguments);
    return all;
  }

  private static void addPlaces(List<String> arguments, Path images, Path work, String log) {
    arguments.add("--images-dir=" + images.toAbsolutePath());
    arguments.add("--work-dir=" + work.toAbsolutePath());
    arguments.add("--log-file=" + log);
  }

  /** A CRIU of another user writes into them, and they stay ours to read. */
  private static void createOurs(Path work, String... names) throws IOException {
    for (String name : names) {
      Files.createFile(work.resolve(name));
    }
  }
}
