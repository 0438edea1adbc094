package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.proto.Rpc.criu_features;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MissingKernelFeatureException;
import java.util.EnumSet;
import java.util.Set;

/** A FEATURE_CHECK request. */
public final class FeatureCheck {

  private final SimpleRequest request;

  public FeatureCheck(CriuCommand command) {
    this.request = new SimpleRequest(command, "features", "CRIU's check of this kernel's features");
  }

  public Set<CriuFeature> run() {
    // CRIU checks only what is requested, and answers false for the rest.
    criu_features all =
        criu_features.newBuilder().setMemTrack(true).setLazyPages(true).setPidfdStore(true).build();
    criu_req message =
        criu_req.newBuilder().setType(criu_req_type.FEATURE_CHECK).setFeatures(all).build();
    criu_features found = request.require(message).getFeatures();
    Set<CriuFeature> features = EnumSet.noneOf(CriuFeature.class);
    if (found.getMemTrack()) {
      features.add(CriuFeature.MEMORY_TRACKING);
    }
    if (found.getLazyPages()) {
      features.add(CriuFeature.LAZY_PAGES);
    }
    if (found.getPidfdStore()) {
      features.add(CriuFeature.PIDFD_STORE);
    }
    return Set.copyOf(features);
  }

  /**
   * Refuses a request that CRIU could only fail at, and not always cleanly: a pre-dump without
   * memory tracking ends in a failed assertion.
   *
   * @param features what this kernel has
   * @param feature what the request needs
   * @param subject for the message, such as {@code dump of process 12}
   * @param failure for the exception
   */
  public static void require(
      Set<CriuFeature> features, CriuFeature feature, String subject, Failure failure) {
    if (features.contains(feature)) {
      return;
    }
    String missing =
        switch (feature) {
          case MEMORY_TRACKING ->
              "this kernel does not track which pages are written (CONFIG_MEM_SOFT_DIRTY):"
                  + " dump without trackMemory, parentImages and pre-dumps";
          case LAZY_PAGES ->
              "this kernel has no userfaultfd that CRIU can use: do not set lazyPages";
          case PIDFD_STORE -> "this kernel has no pidfd_open";
        };
    throw new MissingKernelFeatureException(
        subject + " did not begin: " + missing, failure, CriuFailure.NOT_STARTED, feature, null);
  }
}
