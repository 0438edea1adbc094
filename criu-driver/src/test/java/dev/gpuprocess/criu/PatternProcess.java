package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;

/** A process with a pattern in its memory, which it compares with what it must be when asked. */
final class PatternProcess implements AutoCloseable {

  // Nothing but standard streams is open when it does not look: there is nothing to move along.
  private static final String PROGRAM =
      """
      use POSIX (); $SIG{HUP} = 'IGNORE'; my ($place, $mebibytes) = @ARGV;
      my @memory = map { pack 'N*', map { $_ * 2654435761 % 4294967296 } $_ << 18 .. ($_ + 1 << 18) - 1 }
        0 .. $mebibytes - 1;
      sub say_to { my ($name, $text) = @_; open my $f, '>', "$place/$name.new"; print $f $text; close $f;
        rename "$place/$name.new", "$place/$name" }
      say_to('ready', '');
      for (my $asked = 0;;) {
        if (-e "$place/ask$asked") {
          my $bad = grep { my $m = $_; $memory[$m] ne
            pack 'N*', map { $_ * 2654435761 % 4294967296 } $m << 18 .. ($m + 1 << 18) - 1 } 0 .. $#memory;
          say_to("answer$asked", $bad ? "$bad MiB are wrong" : scalar(@memory) . ' MiB are right'); $asked++
        }
        select undef, undef, undef, 0.005
      }
      """;

  private final Path place;
  private final Workload process;
  private final int mebibytes;
  private int asked;

  private PatternProcess(Path place, int mebibytes, Function<String[], Workload> start) {
    this.place = place;
    this.mebibytes = mebibytes;
    this.process =
        start.apply(
            new String[] {"perl", "-e", PROGRAM, place.toString(), Integer.toString(mebibytes)});
    Workload.await(() -> Files.exists(place.resolve("ready")), "the pattern to be in memory");
  }

  /**
   * Starts one.
   *
   * @param place a directory of its own
   * @param start starts a program
   */
  static PatternProcess start(Path place, int mebibytes, Function<String[], Workload> start) {
    try {
      return new PatternProcess(Files.createDirectories(place), mebibytes, start);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static PatternProcess start(Path place, int mebibytes) {
    return start(place, mebibytes, Workload::of);
  }

  ProcessIdentity identity() {
    return process.identity();
  }

  int pid() {
    return process.pid();
  }

  /** Has it look at every byte. */
  String ask() {
    Path answer = place.resolve("answer" + asked);
    try {
      Files.createFile(place.resolve("ask" + asked++));
      Workload.await(() -> Files.exists(answer), "process " + pid() + " to look at its memory");
      return Files.readString(answer);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** What it answers when all is well. */
  String right() {
    return mebibytes + " MiB are right";
  }

  /** Names of files that a directory has. */
  static List<String> names(Path directory) {
    String[] names = directory.toFile().list();
    return names == null ? List.of() : List.of(names);
  }

  @Override
  public void close() {
    process.close();
  }
}
