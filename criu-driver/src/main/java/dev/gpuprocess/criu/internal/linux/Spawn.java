package dev.gpuprocess.criu.internal.linux;

import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * Starts a program with exactly these descriptors: {@code /dev/null} or a socket as 0, one pipe as
 * 1 and 2, and what it inherits as {@link #SOCKET} and the numbers after that. It has no terminal
 * on which sudo could prompt or a key could send it a signal.
 */
public final class Spawn {

  /** The number of the socket in a CRIU that is our child. */
  public static final int SOCKET = 3;

  /** Names a configuration file, which could change what a request means. */
  private static final String CONFIGURATION = "CRIU_CONFIG_FILE";

  private Spawn() {}

  /**
   * Starts the program.
   *
   * @param program an absolute path
   * @param arguments without the program's name
   * @param output becomes 1 and 2
   * @param numbered become {@link #SOCKET} and the numbers after it
   * @throws NativeCallException if it cannot be started
   */
  public static ChildProcess start(
      Path program, List<String> arguments, int output, List<Integer> numbered)
      throws NativeCallException {
    return start(program, arguments, ChildStart.NOWHERE, output, numbered);
  }

  /**
   * The same, with a descriptor as standard input.
   *
   * @param input becomes 0
   */
  public static ChildProcess start(
      Path program, List<String> arguments, int input, int output, List<Integer> numbered)
      throws NativeCallException {
    List<byte[]> words =
        Stream.concat(
                Stream.of(NativePath.bytes(program)), arguments.stream().map(NativePath::encode))
            .toList();
    List<Integer> descriptors = new ArrayList<>(List.of(input, output, output));
    descriptors.addAll(numbered);
    return new ChildProcess(
        ChildStart.start(program, words, variable -> !variable.equals(CONFIGURATION), descriptors));
  }
}
