package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Fault;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * Something that goes wrong with one member of a job while it is suspended and resumed.
 *
 * @param name for people
 * @param hasty whether driver calls have a short deadline
 * @param kills whether the member is killed
 * @param breaks whether the driver calls the member failed
 * @param faults what goes wrong, by the member
 */
record JobFaultCase(
    String name,
    boolean hasty,
    boolean kills,
    boolean breaks,
    Function<JobSubject, List<Fault>> faults) {

  /** Every error that a checkpoint function was seen to return, and the unknown one. */
  private static final int[] CODES = {1, 2, 3, 304, 401, 600, 801, 999};

  private static final String PREFIX = "cuCheckpointProcess";
  private static final List<String> MOVES = List.of("Lock", "Checkpoint", "Restore", "Unlock");

  /** All cases: each call, each error, each member. */
  static List<JobFaultCase> all() {
    List<JobFaultCase> cases = new ArrayList<>();
    for (int member = 0; member < JobSubject.MEMBERS; member++) {
      for (String function : MOVES) {
        ofMove(function, member, cases);
      }
      for (int number = 1; number <= 4; number++) {
        int nth = number;
        for (int code : new int[] {3, 304, 401, 999}) {
          cases.add(
              simple(
                  "GetState %d answers %d".formatted(nth, code),
                  "GetState",
                  member,
                  fault -> fault.call(nth).answers(code)));
        }
      }
    }
    return cases;
  }

  private static void ofMove(String function, int member, List<JobFaultCase> cases) {
    for (int code : CODES) {
      cases.add(
          simple(
              function + " answers " + code,
              function,
              member,
              fault -> fault.call(1).answers(code)));
      cases.add(
          simple(
              function + " lies " + code,
              function,
              member,
              fault -> fault.call(1).after().answers(code)));
    }
    cases.add(simple(function + " never works", function, member, fault -> fault.answers(999)));
    cases.add(undoFails(function, member));
    cases.add(
        of(function + " hangs", true, false, false, function, member, f -> f.call(1).hangs()));
    cases.add(
        of(
            function + " hangs after",
            true,
            false,
            false,
            function,
            member,
            f -> f.call(1).after().hangs()));
    cases.add(
        of(
            function + " kills",
            false,
            true,
            false,
            function,
            member,
            f -> f.call(1).during().kills()));
    cases.add(
        of(
            function + " kills after",
            false,
            true,
            false,
            function,
            member,
            f -> f.call(1).after().kills()));
    if (function.equals("Checkpoint") || function.equals("Restore")) {
      cases.add(
          of(
              function + " breaks",
              false,
              false,
              true,
              function,
              member,
              f -> f.call(1).during().answers(999)));
    }
  }

  private static JobFaultCase simple(
      String name, String function, int member, UnaryOperator<Fault> how) {
    return of(name, false, false, false, function, member, how);
  }

  private static JobFaultCase of(
      String name,
      boolean hasty,
      boolean kills,
      boolean breaks,
      String function,
      int member,
      UnaryOperator<Fault> how) {
    return new JobFaultCase(
        "member %d: %s".formatted(member, name),
        hasty,
        kills,
        breaks,
        subject -> List.of(how.apply(Fault.in(PREFIX + function).pid(subject.member(member)))));
  }

  /** The call succeeds and returns an error, and undoing it fails for all members. */
  private static JobFaultCase undoFails(String function, int member) {
    return new JobFaultCase(
        "member %d: %s lies, and so does the undo".formatted(member, function),
        false,
        false,
        false,
        subject ->
            List.of(
                Fault.in(PREFIX + function).pid(subject.member(member)).after().answers(999),
                Fault.in(PREFIX + "Unlock").answers(999),
                Fault.in(PREFIX + "Restore").answers(999)));
  }

  @Override
  public String toString() {
    return name;
  }
}
