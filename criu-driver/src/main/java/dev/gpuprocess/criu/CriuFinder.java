package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.process.CriuBinary;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.CriuVersion;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.criu.internal.process.Privilege;
import dev.gpuprocess.criu.internal.process.ProgramTrust;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.criu.proto.Rpc.criu_version;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.time.Deadline;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Finds the first CRIU that answers, works on this kernel and has the privileges it needs, and
 * remembers it: a program that is started directly, or one that a command such as sudo runs as
 * root.
 */
final class CriuFinder {

  static final Duration LIMIT = Duration.ofSeconds(30);

  /** Most distributions have an older one. */
  private static final String CURE =
      "install CRIU 4.2 or later (bin/criu in the sources of this library does, without changing the"
          + " system; or build it from github.com/checkpoint-restore/criu), and put it on the PATH or"
          + " name it in "
          + CriuLocator.VARIABLE;

  private final CriuLocator locator;
  private final String kernel;
  private final Duration limit;
  private volatile @Nullable CriuBinary found;

  CriuFinder(CriuLocator locator) {
    this(locator, CriuBinary.kernel(), LIMIT);
  }

  /**
   * Finds one for another kernel, or with less patience.
   *
   * @param limit how long a program may take to answer
   */
  CriuFinder(CriuLocator locator, String kernel, Duration limit) {
    this.locator = locator;
    this.kernel = kernel;
    this.limit = limit;
  }

  /**
   * Finds CRIU.
   *
   * @param operation the operation that needs it
   */
  CriuBinary find(String operation) {
    CriuBinary known = found;
    if (known == null) {
      known = new Search(operation).run();
      found = known;
    }
    return known;
  }

  /** One search. */
  private final class Search {

    private final String operation;
    private final List<String> refusals = new ArrayList<>();
    private boolean tooOld;

    Search(String operation) {
      this.operation = operation;
    }

    CriuBinary run() {
      if (locator.onlyByCommand()) {
        return byCommand(locator.command()).orElseThrow(this::none);
      }
      Optional<CriuBinary> direct = direct();
      if (direct.isPresent() && suffices(direct.get())) {
        return direct.get();
      }
      List<String> command = locator.command();
      boolean named = !command.isEmpty();
      if (!named && !CurrentUser.isRoot() && locator.mayTrySudo()) {
        command =
            List.of(
                "sudo",
                "-n",
                direct.map(CriuBinary::program).or(this::first).map(Path::toString).orElse("criu"));
      }
      Optional<CriuBinary> privileged = command.isEmpty() ? Optional.empty() : byCommand(command);
      return privileged
          .or(
              () ->
                  named
                      ? Optional.empty()
                      : direct) // the operation itself will report what is missing
          .orElseThrow(this::none);
    }

    /** Returns whether CRIU has enough privileges without a command. */
    private boolean suffices(CriuBinary direct) {
      if (CurrentUser.isRoot() && locator.command().isEmpty()) {
        return true;
      }
      criu_req check = criu_req.newBuilder().setType(criu_req_type.CHECK).build();
      try {
        CriuResult result = CriuCall.plain(direct.command(), Deadline.after(limit)).make(check);
        if (result.success()) {
          return true;
        }
        refusals.add(direct.command() + " lacks the privileges it needs as this user");
      } catch (NativeCallException e) {
        refusals.add(direct.command() + ": " + e.getMessage());
      }
      return false;
    }

    private Optional<CriuBinary> direct() {
      for (CriuLocator.Candidate candidate : locator.candidates()) {
        try {
          Optional<CriuBinary> binary = fit(candidate.toString(), ask(candidate));
          if (binary.isPresent()) {
            return binary;
          }
        } catch (NativeCallException | UnusableException e) {
          refusals.add(candidate + ": " + e.getMessage());
        }
      }
      return Optional.empty();
    }

    /** A CRIU that this user cannot run, but root perhaps can. */
    private Optional<Path> first() {
      return locator.candidates().stream().map(CriuLocator.Candidate::program).findFirst();
    }

    private Optional<CriuBinary> byCommand(List<String> words) {
      String name = "'" + String.join(" ", words) + "'";
      List<String> all = new ArrayList<>(words);
      try {
        Path program =
            locator
                .program(words.get(0))
                .orElseThrow(() -> new UnusableException("the program is not on the PATH"));
        all.set(0, program.toString());
        return fit(name, ask(new CriuCommand(all, false)));
      } catch (NativeCallException | UnusableException e) {
        refusals.add(name + ": " + e.getMessage());
        return Optional.empty();
      }
    }

    private Optional<CriuBinary> fit(String name, CriuBinary binary) {
      Optional<String> unfit = binary.unfitFor(kernel);
      if (unfit.isEmpty()) {
        return Optional.of(binary);
      }
      tooOld = true;
      refusals.add(name + " is version " + binary.version() + ", but " + unfit.get());
      return Optional.empty();
    }

    private RuntimeException none() {
      Failure failure = Failure.of(operation, 0);
      if (tooOld) {
        return new MachineUnfitException(
            MachineUnfitException.Reason.CRIU_TOO_OLD,
            "no CRIU fit for this kernel: " + String.join("; ", refusals) + "; " + CURE,
            failure);
      }
      if (refusals.isEmpty()) {
        refusals.add("looked in " + locator.places());
      }
      return new MachineUnfitException(
          MachineUnfitException.Reason.NO_CRIU,
          "no CRIU can be started: " + String.join("; ", refusals) + "; " + CURE,
          failure);
    }
  }

  private CriuBinary ask(CriuLocator.Candidate candidate)
      throws NativeCallException, UnusableException {
    if (!Files.exists(candidate.program())) {
      throw new UnusableException("the file does not exist");
    }
    if (CurrentUser.isRoot()) {
      Optional<String> objection =
          ProgramTrust.objection(candidate.program(), candidate.isProvisioned());
      if (objection.isPresent()) {
        throw new UnusableException(
            "root does not run it, because " + objection.get() + ", so others could change it");
      }
    }
    return ask(CriuCommand.direct(candidate.program()));
  }

  private CriuBinary ask(CriuCommand command) throws NativeCallException, UnusableException {
    criu_req request = criu_req.newBuilder().setType(criu_req_type.VERSION).build();
    CriuResult result;
    try {
      result = CriuCall.plain(command, Deadline.after(limit)).make(request);
    } catch (UnsatisfiedLinkError e) {
      // Of the functions used, only addclosefrom_np is too new for some systems.
      throw new UnusableException("this C library is older than glibc 2.34: " + e.getMessage());
    }
    criu_resp reply = result.reply();
    if (reply == null || !reply.getSuccess() || !reply.hasVersion()) {
      GivenUpException givenUp = result.givenUp();
      throw new UnusableException(
          "it does not report its version: "
              + (givenUp == null ? result.exit() : givenUp.reason())
              + (result.output().isBlank() ? "" : ", " + result.output().strip())
              + (command.direct() ? "" : "; " + Privilege.cure(command, result.output())));
    }
    criu_version version = reply.getVersion();
    return new CriuBinary(
        command,
        new CriuVersion(version.getMajorNumber(), version.getMinorNumber(), version.getSublevel()),
        version.hasGitid());
  }

  /** Why a program or a command cannot be used. */
  private static final class UnusableException extends Exception {

    private static final long serialVersionUID = 1L;

    UnusableException(String reason) {
      super(reason);
    }
  }
}
