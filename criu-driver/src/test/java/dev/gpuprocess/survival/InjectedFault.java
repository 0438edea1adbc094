package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Fault;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/**
 * Something that goes wrong.
 *
 * @param name as the column of the table
 * @param hasty whether the driver calls have a short deadline
 * @param kills whether the process is killed
 * @param setting sets it up, when the verb is about to begin
 */
record InjectedFault(
    String name, boolean hasty, boolean kills, Consumer<FaultCaseContext> setting) {

  /** A call of the driver: the n-th call of this function since the verb began, from 1. */
  record Call(String function, int number) {

    /** Returns whether it does anything besides returning. */
    boolean moves() {
      return !function.endsWith("GetState");
    }

    private Fault fault(FaultCaseContext setup) {
      return Fault.in(function).pid(setup.pid()).call(number);
    }
  }

  /** The call does nothing and returns an error. */
  static InjectedFault answersBefore(Call call, int code) {
    return fault("answers " + code, call, fault -> fault.answers(code));
  }

  /** The call succeeds and returns an error. */
  static InjectedFault answersAfter(Call call, int code) {
    return fault("lies " + code, call, fault -> fault.after().answers(code));
  }

  /** The call succeeds and returns an error, and undoing it fails as well. */
  static InjectedFault undoFails(Call call) {
    return new InjectedFault(
        "undo fails",
        false,
        false,
        setup ->
            setup
                .machine()
                .driver
                .faults(
                    call.fault(setup).after().answers(999),
                    Fault.in("cuCheckpointProcessUnlock").pid(setup.pid()).answers(999),
                    Fault.in("cuCheckpointProcessRestore").pid(setup.pid()).answers(999)));
  }

  /** The call hangs until the case is over, then succeeds. */
  static InjectedFault hangsBefore(Call call) {
    return hasty("hangs before", call, Fault::hangs);
  }

  /** The call hangs inside the process. */
  static InjectedFault hangsInside(Call call) {
    return hasty("hangs inside", call, fault -> fault.during().hangs());
  }

  /** The call succeeds, and hangs then. */
  static InjectedFault hangsAfter(Call call) {
    return hasty("hangs after", call, fault -> fault.after().hangs());
  }

  /** The call hangs until the case is over, and returns an error then. */
  static InjectedFault hangsAndAnswers(Call call, int code) {
    return hasty("hangs, " + code, call, fault -> fault.hangs().answers(code));
  }

  /** The process dies in the middle of the call. */
  static InjectedFault diesInside(Call call) {
    return new InjectedFault(
        "dies inside",
        false,
        true,
        setup -> setup.machine().driver.faults(call.fault(setup).during().kills()));
  }

  /** The process dies when the call has done its work. */
  static InjectedFault diesAfter(Call call) {
    return new InjectedFault(
        "dies after",
        false,
        true,
        setup -> setup.machine().driver.faults(call.fault(setup).after().kills()));
  }

  /** The call breaks in the middle: the driver calls the process failed. */
  static InjectedFault breaksInside(Call call) {
    return fault("breaks inside", call, fault -> fault.during().answers(999));
  }

  private static InjectedFault fault(String name, Call call, UnaryOperator<Fault> what) {
    return new InjectedFault(
        name, false, false, setup -> setup.machine().driver.faults(what.apply(call.fault(setup))));
  }

  private static InjectedFault hasty(String name, Call call, UnaryOperator<Fault> what) {
    return new InjectedFault(
        name, true, false, setup -> setup.machine().driver.faults(what.apply(call.fault(setup))));
  }

  /** The process is killed at a moment. */
  static InjectedFault killed(int moment) {
    return new InjectedFault(
        "killed",
        false,
        true,
        setup -> setup.moments().at(moment, () -> setup.signal(Signals.KILL)));
  }

  /** The process is killed some time after a moment. */
  static InjectedFault killed(int moment, int micros) {
    return new InjectedFault(
        "killed after " + micros + " us",
        false,
        true,
        setup -> setup.moments().at(moment, () -> setup.signalLater(micros, Signals.KILL)));
  }

  /** The process is stopped some time after a moment, and continues when the case is over. */
  static InjectedFault stopped(int moment, int micros) {
    return new InjectedFault(
        "stopped after " + micros + " us",
        true,
        false,
        setup -> setup.moments().at(moment, () -> setup.signalLater(micros, Signals.STOP)));
  }

  /** The dump is cancelled at a moment. */
  static InjectedFault cancelled(int moment) {
    return new InjectedFault(
        "cancelled",
        false,
        false,
        setup -> setup.moments().at(moment, setup.cancellation()::cancel));
  }

  /** The process is stopped at a moment, and continues when the case is over. */
  static InjectedFault stopped(int moment) {
    return new InjectedFault(
        "stopped",
        true,
        false,
        setup -> setup.moments().at(moment, () -> setup.signal(Signals.STOP)));
  }

  /** The CRIU at work is killed at a moment. */
  static InjectedFault criuKilled(int moment) {
    return new InjectedFault(
        "criu killed", false, false, setup -> setup.moments().at(moment, setup::killCriu));
  }

  /** The journal cannot be written from a moment on. */
  static InjectedFault journalBroken(int moment) {
    return new InjectedFault(
        "no journal",
        false,
        false,
        setup -> setup.moments().at(moment, () -> setup.machine().breakJournal()));
  }
}
