package dev.gpuprocess.internal.wire;

import java.nio.charset.StandardCharsets;

/**
 * One message.
 *
 * @param kind what it says
 * @param content its bytes, which nobody changes
 */
@SuppressWarnings("ArrayRecordComponent") // compared by nobody
public record Message(Kind kind, byte[] content) {

  /** As text. */
  public String text() {
    return new String(content, StandardCharsets.UTF_8);
  }
}
