package dev.gpuprocess.survival;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A process without a GPU that counts, and that knows what every byte of its memory should be. It
 * ignores SIGPIPE, as Python does: a CRIU that is killed while it reads the memory leaves this
 * signal behind.
 */
final class HostSubject implements AutoCloseable {

  private static final int SIGTRAP = 5;
  private static final Duration PATIENCE = Duration.ofMinutes(1);

  // The file keeps its size, which CRIU compares: how far it has counted, how often it has looked
  // through its memory, and what it found.
  private static final String PROGRAM =
      """
      my ($file, $mebibytes) = @ARGV;
      my ($looked, $found, $asked, $size) = (0, 'right', 0, 1 << 20);
      $SIG{HUP} = $SIG{PIPE} = 'IGNORE'; $SIG{USR1} = sub { $asked++ };
      open my $random, '<:raw', '/dev/urandom' or die; sysread $random, my $tail, $size - 8;
      my $memory = "\\0" x ($mebibytes << 20);
      sub block { pack('Q', $_[0]) . $tail }
      substr($memory, $_ * $size, $size, block($_)) for 0 .. $mebibytes - 1;
      sub look {
        for (0 .. $mebibytes - 1) { return 'wrong' if substr($memory, $_ * $size, $size) ne block($_) }
        'right' }
      open my $out, '>', $file or die "$file: $!";
      for (my $i = 1;; $i++) {
        if ($asked > $looked) { $found = look(); $looked = $asked }
        sysseek $out, 0, 0;
        syswrite $out, sprintf "%010d %010d %s", $i, $looked, $found;
        select undef, undef, undef, 0.005;
      }
      """;

  private final Process started;
  private final int pid;
  private final ProcessIdentity first;
  private final Path file;

  private HostSubject(Process started, Path file) {
    this.started = started;
    this.pid = Math.toIntExact(started.pid());
    this.first = ProcessIdentity.of(pid).orElseThrow();
    this.file = file;
  }

  /**
   * Starts one in a session of its own.
   *
   * @param before a program that starts it, such as {@code unshare --net}; empty for none
   */
  static HostSubject start(Path directory, int mebibytes, String... before) {
    Path file = directory.resolve("subject-" + System.nanoTime());
    List<String> command = new ArrayList<>(List.of(before));
    command.addAll(List.of("perl", "-e", "use POSIX (); POSIX::setsid();" + PROGRAM));
    command.addAll(List.of(file.toString(), Integer.toString(mebibytes)));
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectInput(Path.of("/dev/null").toFile())
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      HostSubject subject = new HostSubject(process, file);
      if (!Waiting.until(PATIENCE, () -> subject.number(0) > 0)) {
        process.destroyForcibly();
        throw new IllegalStateException("the subject does not count");
      }
      return subject;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  int pid() {
    return pid;
  }

  /** Returns the process, started or restored; empty when it is gone. */
  Optional<ProcessIdentity> identity() {
    return ProcessIdentity.of(pid).filter(ProcessIdentity::isAlive);
  }

  /** Checks that it continues with correct memory; returns the fault. */
  Optional<String> fault() {
    Optional<ProcessIdentity> asked = identity();
    if (asked.isEmpty()) {
      return Optional.of("it is gone");
    }
    long count = number(0);
    long looked = number(1);
    Signals.send(asked.get(), Signals.USER_1);
    if (!Waiting.until(PATIENCE, () -> number(0) > count && number(1) > looked)) {
      return Optional.of(
          "it does not go on from %d: %s, now %s"
              .formatted(
                  count, asked.get(), ProcFs.stat(pid).map(Object::toString).orElse("gone")));
    }
    return words()[2].equals("right") ? Optional.empty() : Optional.of("its memory is wrong");
  }

  /**
   * Returns whether it died of the breakpoint after the code that CRIU injects: a kill of CRIU in
   * these few milliseconds kills the process, and no client of CRIU can prevent that. Known only of
   * a process that was not restored.
   */
  boolean diedInCriusCode() {
    if (isFirstLife()) {
      return false;
    }
    try {
      return started.waitFor() == 128 + SIGTRAP;
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns whether it is the started process, not a restored one. */
  boolean isFirstLife() {
    return identity().filter(first::equals).isPresent();
  }

  private long number(int word) {
    String[] words = words();
    return word < words.length && !words[word].isEmpty() ? Long.parseLong(words[word]) : 0;
  }

  private String[] words() {
    try {
      return Files.exists(file)
          ? Files.readString(file, StandardCharsets.US_ASCII).split(" ", -1)
          : new String[0];
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    identity().ifPresent(process -> Signals.send(process, Signals.KILL));
    started.destroyForcibly();
    if (!Waiting.until(PATIENCE, () -> identity().isEmpty())) {
      throw new IllegalStateException("the subject does not die");
    }
  }
}
