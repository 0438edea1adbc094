package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PacketSocketPair;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Durations;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/**
 * A call of the CUDA driver about a process that has a {@linkplain CudaJobFile job file}, made by a
 * separate program ({@code cuda_call.c}) with the name of that file in its environment.
 *
 * <p>The driver reads the name from the environment of its caller. A JVM has one environment for
 * all its threads, so calls for several processes would have to wait for each other, forever if one
 * hangs, and the driver may read the name only once. C code reads the environment without a lock,
 * so changing it can crash the JVM. With a program for each call, calls for different processes run
 * in parallel, and a call ends with its program. It costs the start of a program and the loading of
 * libcuda.
 */
public final class CudaCall {

  private static final int ANSWER_BYTES = 12;
  private static final int ANSWERED = 1;

  /** The name of descriptor 3 of the program: a path could lead to another file by now. */
  private static final String JOB_FILE = ProcFs.descriptor(3).toString();

  private CudaCall() {}

  /**
   * The answer of the driver.
   *
   * @param result its result code
   * @param value the number that it wrote, if the function writes one
   */
  public record Answer(int result, int value) {}

  /**
   * Makes the call, without a time limit.
   *
   * @param jobFile a descriptor of this JVM for the file
   * @param library file name or path of libcuda
   * @param function a checkpoint function
   * @param timeoutMs the timeout of a lock
   * @param pairs the GPU pairs of a restore, 32 bytes each
   * @throws IOException when the call could not be made, or its answer is not known
   */
  public static Answer make(
      int jobFile, String library, String function, int pid, int timeoutMs, byte[] pairs)
      throws IOException {
    Path program = NativeFile.installed(NativeFile.CUDA_CALL);
    List<byte[]> arguments =
        List.of(
            NativeFile.argument("gpuprocess-cuda-call"),
            NativePath.encode(library),
            NativeFile.argument(JOB_FILE),
            NativeFile.argument(function),
            NativeFile.argument(Integer.toString(pid)),
            NativeFile.argument(Integer.toUnsignedString(timeoutMs)),
            NativeFile.argument(HexFormat.of().formatHex(pairs)));
    try (PacketSocketPair socket = PacketSocketPair.make()) {
      int child =
          NativeFile.start(
              program,
              arguments,
              variable -> !variable.equals(CudaJobFile.VARIABLE),
              List.of(socket.theirs(), ChildStart.NOWHERE, ChildStart.NOWHERE, jobFile),
              socket);
      return answer(receive(socket, child));
    }
  }

  private static byte[] receive(PacketSocketPair socket, int child) throws NativeCallException {
    try {
      while (true) {
        Optional<byte[]> message = socket.receive(Durations.LONGEST);
        if (message.isPresent()) {
          return message.get();
        }
      }
    } finally {
      ExitStatus unused = PidDescriptor.awaitAndReap(child);
    }
  }

  private static Answer answer(byte[] message) throws IOException {
    if (message.length != ANSWER_BYTES) {
      throw new IOException("the program that called it was killed");
    }
    ByteBuffer answer = ByteBuffer.wrap(message).order(ByteOrder.nativeOrder());
    int kind = answer.getInt();
    if (kind != ANSWERED) {
      throw new IOException("it cannot be loaded outside of this JVM, or lacks the function");
    }
    return new Answer(answer.getInt(), answer.getInt());
  }
}
