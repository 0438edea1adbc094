package dev.gpuprocess.examples.slurm;

import static java.nio.file.attribute.PosixFilePermission.OWNER_EXECUTE;
import static java.nio.file.attribute.PosixFilePermission.OWNER_READ;
import static java.nio.file.attribute.PosixFilePermission.OWNER_WRITE;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;

/** A substitute for {@code scontrol}, which answers from files, and keeps a list of its calls. */
final class FakeController {

  private static final String PROGRAM =
      """
      #!/bin/sh
      cd "${0%/*}" || exit 1
      echo "$*" >>calls
      [ ! -e away ] || { echo "Unable to contact slurm controller"; exit 1; }
      case $1 in
        -o) [ "$3 $4" != "job 99" ] || { echo "Invalid job id specified"; exit 1; }; cat "$3" ;;
        update) [ "$3" != Requeue=1 ] || [ -e refuse ] || sed -i s/Requeue=0/Requeue=1/ job ;;
        show) cat config ;;
        requeue)
          ! grep -q Requeue=0 job || { echo "Requested operation is presently disabled"; exit 1; }
          [ ! -e refuse ] || { echo "Job is not requeueable"; exit 1; }
          ! rm busy 2>/dev/null || { echo "Socket timed out on send/recv operation"; exit 1; }
          [ "$2" != Incomplete ] || grep -q JobState=RUNNING job || exit 0 # as Slurm does
          restarts=$(sed 's/.*Restarts=\\([0-9]*\\).*/\\1/' job)
          sed -i "s/Restarts=[0-9]*/Restarts=$((restarts + 1))/" job ;;
      esac
      """;

  private final Path directory;

  FakeController(Path directory) throws IOException {
    this.directory = Files.createDirectories(directory);
    Path program = Files.writeString(directory.resolve("scontrol"), PROGRAM);
    Files.setPosixFilePermissions(program, Set.of(OWNER_READ, OWNER_WRITE, OWNER_EXECUTE));
    Files.createFile(directory.resolve("calls"));
    write("config", "KillWait                = 30 sec\n");
    job("RUNNING", 0);
  }

  Scontrol scontrol() {
    return new Scontrol(program().toString());
  }

  Path program() {
    return directory.resolve("scontrol");
  }

  /** Sets what is answered about the job. */
  void job(String state, int restarts) throws IOException {
    job(state, restarts, "Requeue=1 PreemptTime=None");
  }

  void job(String state, int restarts, String more) throws IOException {
    write(
        "job",
        "JobId=17 JobName=x Restarts=%s JobState=%s Reason=None ExcNodeList=(null) Command=a=b %s\n"
            .formatted(restarts, state, more));
  }

  /** Succeeds without an answer about the job, as a program whose output is lost. */
  void loseAnswers() throws IOException {
    write("job", "");
  }

  void partition(String fields) throws IOException {
    write("partition", fields);
  }

  void config(String lines) throws IOException {
    write("config", lines);
  }

  void refuseRequeue() throws IOException {
    Files.createFile(directory.resolve("refuse"));
  }

  /** Does not carry out the next requeue, as a controller that is busy, but answers the rest. */
  void failNextRequeue() throws IOException {
    Files.createFile(directory.resolve("busy"));
  }

  /** Answers nothing from now on. */
  void goAway() throws IOException {
    Files.createFile(directory.resolve("away"));
  }

  void comeBack() throws IOException {
    Files.delete(directory.resolve("away"));
  }

  /** Returns the calls that change something. */
  List<String> changes() throws IOException {
    return Files.readAllLines(directory.resolve("calls")).stream()
        .filter(call -> !call.contains("show"))
        .toList();
  }

  private void write(String name, String text) throws IOException {
    Files.writeString(directory.resolve(name), text);
  }
}
