package dev.gpuprocess.internal.engine;

import dev.gpuprocess.progress.Step;
import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** The same numbers as {@link Step}, for Java Flight Recorder. */
@Name("dev.gpuprocess.progress.Step")
@Label("GPU process step")
@Category("GPU process")
@Description("One step of taking a process off its GPU or bringing it back")
@StackTrace(false)
final class StepEvent extends Event {

  @Label("Step")
  final String step;

  @Label("Process")
  final int pid;

  @Label("Bytes moved")
  @DataAmount
  long bytes;

  @Label("How it was done")
  String note = "";

  @Label("Outcome")
  String outcome = "";

  StepEvent(String step, int pid) {
    this.step = step;
    this.pid = pid;
  }
}
