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
 * @param trouble what goes wrong
 */
record MatrixCase(Task task, String moment, Trouble trouble) {

  /** Every error that a checkpoint function was seen to answer, and the unknown one. */
  private static final int[] CODES = {1, 2, 3, 304, 401, 600, 801, 999};

  private static final String DRIVER = WatchedDriver.BEFORE + "cuCheckpointProcess";

  String row() {
    return task + ": " + moment;
  }

  @Override
  public String toString() {
    return row() + ": " + trouble.name();
  }

  /** All that can go wrong at the moments of a task. */
  static List<MatrixCase> of(Task task, List<String> moments) {
    List<MatrixCase> cases = new ArrayList<>();
    Map<String, Integer> calls = new HashMap<>();
    for (int i = 0; i < moments.size(); i++) {
      String moment = moments.get(i);
      List<Trouble> troubles = new ArrayList<>();
      if (moment.startsWith(DRIVER)) {
        String function = moment.substring(WatchedDriver.BEFORE.length());
        addCall(troubles, new Trouble.Call(function, calls.merge(function, 1, Integer::sum)));
      }
      if (moment.startsWith(WatchedCriu.STAGE)) {
        troubles.add(Trouble.criuKilled(i));
      }
      // The moment after a call is the one before the next.
      if (!moment.startsWith(WatchedDriver.AFTER) && !moment.endsWith(" begins")) {
        troubles.add(Trouble.killed(i));
        troubles.add(Trouble.stopped(i));
        troubles.add(Trouble.journalBroken(i));
      }
      String name = "%2d %s".formatted(i, moment.replace(DRIVER, ""));
      troubles.forEach(trouble -> cases.add(new MatrixCase(task, name, trouble)));
    }
    return cases;
  }

  private static void addCall(List<Trouble> troubles, Trouble.Call call) {
    for (int code : CODES) {
      troubles.add(Trouble.answersBefore(call, code));
    }
    for (int code : call.moves() ? CODES : new int[0]) {
      troubles.add(Trouble.answersAfter(call, code));
    }
    troubles.add(Trouble.undoFails(call));
    troubles.add(Trouble.hangsBefore(call));
    troubles.add(Trouble.hangsInside(call));
    troubles.add(Trouble.hangsAfter(call));
    troubles.add(Trouble.hangsAndAnswers(call, 999));
    troubles.add(Trouble.diesInside(call));
    troubles.add(Trouble.diesAfter(call));
    troubles.add(Trouble.breaksInside(call));
  }
}
