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
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/**
 * A call of the CUDA driver about a process of a job that has a {@linkplain CudaJobFile job file},
 * made by a program of its own ({@code cuda_call.c}) with that file's name in its environment.
 *
 * <p>The driver takes the name from the environment of whoever calls it. A JVM has one environment
 * for all its threads, so calls for several processes would have to wait for each other there, one
 * that hangs for ever for all others; and nobody knows whether the driver looks more than once in
 * the life of a process. C programs read their environment without a lock, so that changing it
 * beside them can end the JVM. With a process for each call, calls for different processes run side
 * by side, and a call ends with its process. It costs the start of a program and the loading of
 * libcuda.
 */
public final class CudaCall {

  private static final int ANSWER_BYTES = 12;
  private static final int ANSWERED = 1;

  /** By its descriptor, which is number 3 there: a path could lead to another file by now. */
  private static final String JOB_FILE = ProcFs.descriptor(3).toString();

  private CudaCall() {}

  /**
   * What the driver answered.
   *
   * @param result its result code
   * @param value what it wrote, where the function writes a number
   */
  public record Answer(int result, int value) {}

  /**
   * Makes the call, and waits as long as it takes.
   *
   * @param jobFile a descriptor of this JVM for the file
   * @param library file name or path of libcuda
   * @param function a checkpoint function
   * @param pid whom it is about
   * @param timeoutMs of a lock
   * @param pairs the GPU pairs of a restore, 32 bytes each
   * @throws IOException when the call could not be made, or its answer is not known
   */
  public static Answer make(
      int jobFile, String library, String function, int pid, int timeoutMs, byte[] pairs)
      throws IOException {
    Path program = NativeFiles.path(NativeFiles.CUDA_CALL);
    List<byte[]> arguments =
        List.of(
            ascii("gpuprocess-cuda-call"),
            NativePath.encode(library),
            ascii(JOB_FILE),
            ascii(function),
            ascii(Integer.toString(pid)),
            ascii(Integer.toUnsignedString(timeoutMs)),
            ascii(HexFormat.of().formatHex(pairs)));
    try (PacketSocketPair socket = PacketSocketPair.make()) {
      int child =
          ChildStart.start(
              program,
              arguments,
              variable -> !variable.equals(CudaJobFile.VARIABLE),
              List.of(socket.theirs(), ChildStart.NOWHERE, ChildStart.NOWHERE, jobFile));
      socket.closeTheirs();
      return answer(hear(socket, child));
    }
  }

  private static byte[] hear(PacketSocketPair socket, int child) throws NativeCallException {
    try (PidDescriptor held = PidDescriptor.open(child)) {
      try {
        while (true) {
          Optional<byte[]> said = socket.receive(Durations.LONGEST);
          if (said.isPresent()) {
            return said.get();
          }
        }
      } finally {
        held.awaitEnd();
        Optional<ExitStatus> unused = held.reap();
      }
    }
  }

  private static Answer answer(byte[] said) throws IOException {
    if (said.length != ANSWER_BYTES) {
      throw new IOException("whoever was calling it was killed");
    }
    ByteBuffer answer = ByteBuffer.wrap(said).order(ByteOrder.nativeOrder());
    int kind = answer.getInt();
    if (kind != ANSWERED) {
      throw new IOException("it cannot be loaded outside of this JVM, or lacks the function");
    }
    return new Answer(answer.getInt(), answer.getInt());
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }
}
