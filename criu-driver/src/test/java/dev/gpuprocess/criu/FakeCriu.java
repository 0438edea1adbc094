package dev.gpuprocess.criu;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * A program that speaks CRIU's protocol, and then misbehaves as a scenario describes. It is a perl
 * script that writes the bytes of the protocol, so that the library is not tested against itself.
 */
final class FakeCriu {

  /**
   * What a scenario has: {@code $type} of the request, {@code $request}, {@code $work} (the work
   * directory), and these subroutines.
   */
  private static final String PRELUDE =
      """
      #!/usr/bin/perl
      # $0 --no-default-config -L DIRECTORY swrk NUMBER
      use strict; use POSIX ();
      die "usage" unless shift eq '--no-default-config' && $ARGV[0] eq '-L' && $ARGV[2] eq 'swrk';
      open my $socket, '+<&=', $ARGV[3] or die "descriptor $ARGV[3]: $!";
      sub receive { sysread $socket, my $packet, 1 << 20 or exit 255; $packet }
      sub send_packet { syswrite $socket, $_[0] }
      sub number { my ($n, $bytes) = (shift, '');
        while ($n > 127) { $bytes .= chr($n & 127 | 128); $n >>= 7 } $bytes . chr $n }
      sub field { my ($id, $value) = @_; number($id << 3) . number($value) }
      sub text { my ($id, $value) = @_; number($id << 3 | 2) . number(length $value) . $value }
      sub reply { my ($type, $success, $rest) = @_;
        send_packet(field(1, $type) . field(2, $success) . ($rest // '')) }
      sub restored { text(4, field(1, $_[0])) }
      # Tells a stage, returns whether it was agreed to.
      sub notify { my ($script, $pid) = @_;
        reply(6, 1, text(5, text(1, $script) . ($pid ? field(2, $pid) : '')));
        receive() =~ /\\x18\\x01$/ }
      my ($DUMP, $RESTORE, $CHECK, $VERSION) = (1, 2, 3, 10);
      my $request = receive();
      my $type = ord substr $request, 1, 1;
      """;

  private FakeCriu() {}

  /** Creates a program that reports a supported version and then runs the scenario. */
  static Path create(Path directory, String scenario) {
    return create(directory, 4, 2, 1, scenario);
  }

  static Path create(Path directory, int major, int minor, int sublevel, String scenario) {
    String version =
        "if ($type == $VERSION) { reply($VERSION, 1, text(10, field(1, %d) . field(2, %d)"
                .formatted(major, minor)
            + " . field(4, %d))); exit 0 }%n".formatted(sublevel);
    return write(directory.resolve("criu"), PRELUDE + version + scenario);
  }

  /** Any program. */
  static Path write(Path program, String text) {
    try {
      Files.createDirectories(program.getParent());
      Files.writeString(program, text);
      Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwxr-xr-x"));
      return program;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
