package dev.gpuprocess.criu;

import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.util.Optional;
import java.util.Set;

/**
 * A way to put requests to CRIU. What is checked before, what is made of CRIU's stages, and what is
 * found out after a failure is the same for all ways.
 */
interface CriuLink {

  /** CRIU's log of a dump, in the work directory. */
  String DUMP_LOG = "dump.log";

  /** CRIU's log of a restore, in the work directory. */
  String RESTORE_LOG = "restore.log";

  /**
   * Makes a dump.
   *
   * @param request what to dump; its directories were looked at
   * @param shellJob whether the root of the tree does not lead its session
   * @param supervision what goes along with it
   * @return how it went; CRIU has ended, unless the outcome says otherwise
   * @throws IOException when CRIU could not be started
   */
  Outcome dump(DumpRequest request, boolean shellJob, Supervision supervision) throws IOException;

  /**
   * Makes a restore.
   *
   * @param request what to restore; its images were looked at
   * @param supervision what goes along with it
   * @return how it went; CRIU has ended, unless the outcome says otherwise
   * @throws IOException when CRIU could not be started
   */
  Outcome restore(RestoreRequest request, Supervision supervision) throws IOException;

  /**
   * Asks CRIU about this kernel.
   *
   * @param supervision what goes along with it
   * @return how it went
   * @throws IOException when CRIU could not be started
   */
  Outcome check(Supervision supervision) throws IOException;

  /**
   * Asks what of CRIU's wishes this kernel has.
   *
   * @return empty when this way cannot tell: CRIU will
   */
  Optional<Set<CriuFeature>> features();
}
