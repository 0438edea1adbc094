package dev.gpuprocess.survival;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** What the threads of a controller have done, and what they complain of. */
final class ControllerReport {

  private final AtomicInteger done = new AtomicInteger();
  private final AtomicInteger refused = new AtomicInteger();
  private final List<Complaint> complaints = new ArrayList<>();

  /** A verb, or a row of them, went through. */
  void done() {
    done.incrementAndGet();
  }

  /** It ended with an exception of the library. */
  void refused() {
    refused.incrementAndGet();
  }

  /** How many since this was asked last. */
  int takeDone() {
    return done.getAndSet(0);
  }

  /** How many since this was asked last. */
  int takeRefused() {
    return refused.getAndSet(0);
  }

  synchronized void complain(Complaint complaint) {
    complaints.add(complaint);
  }

  void complain(Complaint.Kind kind, String text) {
    complain(new Complaint(kind, text));
  }

  /** What was complained of since this was asked last. */
  synchronized List<Complaint> takeComplaints() {
    List<Complaint> taken = List.copyOf(complaints);
    complaints.clear();
    return taken;
  }
}
