package dev.gpuprocess.survival;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * One cell of the matrix.
 *
 * @param task what is done
 * @param moment when something goes wrong: its number and name
 * @param injected what goes wrong
 */
record FaultCase(Task task, String moment, InjectedFault injected) {

  /** Every error that a checkpoint function was seen to return, and the unknown one. */
  private static final int[] CODES = {1, 2, 3, 304, 401, 600, 801, 999};

  private static final String WRITE = "write begins";

  /** The time after its beginning; it takes some milliseconds. */
  private static final int[] IN_THE_MIDDLE = {500, 2000, 4000, 8000};

  private static final String DRIVER = WatchedDriver.BEFORE + "cuCheckpointProcess";

  String row() {
    return task + ": " + moment;
  }

  @Override
  public String toString() {
    return row() + ": " + injected.name();
  }

  /** All faults at the moments of a task. */
  static List<FaultCase> of(Task task, List<String> moments) {
    List<FaultCase> cases = new ArrayList<>();
    Map<String, Integer> calls = new HashMap<>();
    for (int i = 0; i < moments.size(); i++) {
      String moment = moments.get(i);
      List<InjectedFault> troubles = new ArrayList<>();
      if (moment.startsWith(DRIVER)) {
        String function = moment.substring(WatchedDriver.BEFORE.length());
        addCall(troubles, new InjectedFault.Call(function, calls.merge(function, 1, Integer::sum)));
      }
      if (moment.startsWith(WatchedCriu.STAGE)) {
        troubles.add(InjectedFault.criuKilled(i));
      }
      if (moment.equals(WRITE)) {
        for (int micros : IN_THE_MIDDLE) {
          troubles.add(InjectedFault.killed(i, micros));
          troubles.add(InjectedFault.stopped(i, micros));
        }
      }
      if (task.isCancellable()) {
        troubles.add(InjectedFault.cancelled(i));
      }
      // The moment after a call is the one before the next.
      if (!moment.startsWith(WatchedDriver.AFTER) && !moment.endsWith(" begins")) {
        troubles.add(InjectedFault.killed(i));
        troubles.add(InjectedFault.stopped(i));
        troubles.add(InjectedFault.journalBroken(i));
      }
      String name = "%2d %s".formatted(i, moment.replace(DRIVER, ""));
      troubles.forEach(injected -> cases.add(new FaultCase(task, name, injected)));
    }
    return cases;
  }

  private static void addCall(List<InjectedFault> troubles, InjectedFault.Call call) {
    for (int code : CODES) {
      troubles.add(InjectedFault.answersBefore(call, code));
    }
    for (int code : call.moves() ? CODES : new int[0]) {
      troubles.add(InjectedFault.answersAfter(call, code));
    }
    troubles.add(InjectedFault.undoFails(call));
    troubles.add(InjectedFault.hangsBefore(call));
    troubles.add(InjectedFault.hangsInside(call));
    troubles.add(InjectedFault.hangsAfter(call));
    troubles.add(InjectedFault.hangsAndAnswers(call, 999));
    troubles.add(InjectedFault.diesInside(call));
    troubles.add(InjectedFault.diesAfter(call));
    troubles.add(InjectedFault.breaksInside(call));
  }
}
