package dev.gpuprocess.internal.call;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A driver call that outlived its deadline. The event lasts from then until the call returns. */
@Name("dev.gpuprocess.AbandonedCall")
@Label("Abandoned driver call")
@Category("GPU process")
@StackTrace(false)
final class AbandonedCallEvent extends Event {

  @Label("Call")
  final String call;

  AbandonedCallEvent(String call) {
    this.call = call;
  }
}
