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

/** One FEATURE_CHECK. */
public final class FeatureCheck {

  private final SimpleRequest question;

  public FeatureCheck(CriuCommand command) {
    this.question = new SimpleRequest(command, "features", "CRIU's look at what this kernel has");
  }

  public Set<CriuFeature> run() {
    // Only what is asked for is looked at; the rest is answered with false.
    criu_features all =
        criu_features.newBuilder().setMemTrack(true).setLazyPages(true).setPidfdStore(true).build();
    criu_req request =
        criu_req.newBuilder().setType(criu_req_type.FEATURE_CHECK).setFeatures(all).build();
    criu_features found = question.require(request).getFeatures();
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
   * Refuses what CRIU could only fail at, and not always in good order: a pre-dump without memory
   * tracking ends in an assertion of its own.
   *
   * @param features what there is
   * @param feature what is needed
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
              "this kernel has no userfaultfd that CRIU could use: go without lazyPages";
          case PIDFD_STORE -> "this kernel has no pidfd_open";
        };
    throw new MissingKernelFeatureException(
        subject + " did not begin: " + missing, failure, CriuFailure.NOT_STARTED, feature, null);
  }
}
