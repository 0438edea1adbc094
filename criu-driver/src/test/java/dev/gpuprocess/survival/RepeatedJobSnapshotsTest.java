package dev.gpuprocess.survival;

/** The contract of repeated snapshots, with a tree of several members. */
class RepeatedJobSnapshotsTest extends RepeatedSnapshotsContract {

  private static final int MEBIBYTES = 1;

  @Override
  Snapshotted start(SimulatedMachine machine) {
    return new Snapshotted.OfJob(JobSubject.startPair(machine.driver, MEBIBYTES));
  }
}
