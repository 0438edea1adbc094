package dev.gpuprocess.internal.call;

import jdk.jfr.FlightRecorder;
import org.jspecify.annotations.Nullable;

/**
 * Records for Flight Recorder how long a call went on after its caller had given it up; nothing
 * where nobody has asked for Flight Recorder, which the first event would set up.
 */
final class Abandonment {

  private final String call;
  private volatile @Nullable AbandonedCallEvent event;

  Abandonment(String call) {
    this.call = call;
  }

  /** The caller gives up. */
  void begin() {
    if (FlightRecorder.isInitialized()) {
      AbandonedCallEvent begun = new AbandonedCallEvent(call);
      begun.begin();
      event = begun;
    }
  }

  /** The call has returned. */
  void end() {
    AbandonedCallEvent begun = event;
    if (begun != null) {
      begun.commit();
    }
  }
}
