package dev.gpuprocess.criu;

import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.criu.proto.Rpc.criu_version;
import dev.gpuprocess.error.CriuTooOldException;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.spi.CriuVersion;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Finds the first CRIU that answers and is fit for this kernel, and remembers it. */
final class CriuFinder {

  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final String CURE =
      "install CRIU 4.2 or later, from the distribution or from github.com/checkpoint-restore/criu,"
          + " and have it on the PATH or name it in "
          + CriuLocator.VARIABLE;

  private final CriuLocator locator;
  private final String kernel;
  private volatile @Nullable CriuBinary found;

  CriuFinder(CriuLocator locator) {
    this(locator, CriuBinary.kernel());
  }

  CriuFinder(CriuLocator locator, String kernel) {
    this.locator = locator;
    this.kernel = kernel;
  }

  /**
   * Finds CRIU.
   *
   * @param operation what it is needed for
   */
  CriuBinary find(String operation) {
    CriuBinary known = found;
    if (known != null) {
      return known;
    }
    List<String> refusals = new ArrayList<>();
    boolean tooOld = false;
    for (CriuLocator.Candidate candidate : locator.candidates()) {
      try {
        CriuBinary binary = ask(candidate);
        Optional<String> unfit = binary.unfitFor(kernel);
        if (unfit.isEmpty()) {
          found = binary;
          return binary;
        }
        tooOld = true;
        refusals.add(candidate + " is version " + binary.version() + ", but " + unfit.get());
      } catch (NativeCallException | UnusableException e) {
        refusals.add(candidate + ": " + e.getMessage());
      }
    }
    Failure failure = Failure.of(operation, 0);
    if (tooOld) {
      throw new CriuTooOldException(
          "no CRIU fit for this kernel: " + String.join("; ", refusals) + "; " + CURE, failure);
    }
    if (refusals.isEmpty()) {
      refusals.add("looked at " + locator.places());
    }
    throw new CriuUnavailableException(
        "no CRIU that can be started: " + String.join("; ", refusals) + "; " + CURE, failure);
  }

  private static CriuBinary ask(CriuLocator.Candidate candidate)
      throws NativeCallException, UnusableException {
    if (!Files.exists(candidate.program())) {
      throw new UnusableException("there is no such file");
    }
    if (ProgramTrust.matters()) {
      Optional<String> objection =
          ProgramTrust.objection(candidate.program(), candidate.isProvisioned());
      if (objection.isPresent()) {
        throw new UnusableException(
            "root does not run it, because " + objection.get() + ", so others could change it");
      }
    }
    criu_req request = criu_req.newBuilder().setType(criu_req_type.VERSION).build();
    Outcome outcome;
    try {
      outcome = CriuCall.plain(candidate.program(), Deadline.after(LIMIT)).make(request);
    } catch (UnsatisfiedLinkError e) {
      // Only addclosefrom_np is newer than what everybody has.
      throw new UnusableException("this C library is older than glibc 2.34: " + e.getMessage());
    }
    criu_resp reply = outcome.reply();
    if (reply == null || !reply.getSuccess() || !reply.hasVersion()) {
      GivenUpException givenUp = outcome.givenUp();
      throw new UnusableException(
          "it does not tell its version: "
              + (givenUp == null ? outcome.exit() : givenUp.reason())
              + (outcome.output().isBlank() ? "" : ", " + outcome.output().strip()));
    }
    criu_version version = reply.getVersion();
    return new CriuBinary(
        candidate.program(),
        new CriuVersion(version.getMajorNumber(), version.getMinorNumber(), version.getSublevel()),
        version.hasGitid());
  }

  /** Why a candidate is none. */
  private static final class UnusableException extends Exception {

    private static final long serialVersionUID = 1L;

    UnusableException(String reason) {
      super(reason);
    }
  }
}
