package dev.gpuprocess.internal.call;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/** A driver call that outlived its deadline. The event lasts from then until the call returns. */
@Name("dev.gpuprocess.AbandonedCall")
@Label("Abandoned driver call")
@Category("GPU process")
@StackTrace(false)
final class AbandonedCallEvent extends Event {

  @Label("Call")
  final String call;

  private AbandonedCallEvent(String call) {
    this.call = call;
  }

  /** Begins an event; null without Flight Recorder, which the first event would initialize. */
  static @Nullable AbandonedCallEvent begun(String call) {
    if (!FlightRecorder.isInitialized()) {
      return null;
    }
    AbandonedCallEvent event = new AbandonedCallEvent(call);
    event.begin();
    return event;
  }
}
