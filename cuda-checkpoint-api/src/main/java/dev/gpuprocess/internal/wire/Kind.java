package dev.gpuprocess.internal.wire;

import java.util.Arrays;
import java.util.Optional;

/** What a message of a migration says. */
public enum Kind {
  /** Sender: what it has. */
  OFFER(1),
  /** Receiver: everything is ready for it. */
  ACCEPT(2),
  /** Either: it ends here, and why. Of the sender it says that the process stays there. */
  REFUSE(3),
  /** Either: bytes of the conversation of two CRIUs. */
  PAGES(4),
  /** Either: there will be no more of them. */
  PAGES_END(5),
  /** Sender: a file follows. */
  FILE(6),
  /** Sender: bytes of the file. */
  DATA(7),
  /** Sender: the manifest, with all files that it has sent. */
  MANIFEST(8),
  /** Receiver: everything that comes before the commitment has come, and is good. */
  READY(9),
  /** Sender: the process is the receiver's from here on. */
  COMMIT(10);

  private final byte code;

  Kind(int code) {
    this.code = (byte) code;
  }

  /** What stands for it in the protocol. */
  byte code() {
    return code;
  }

  /** What a byte stands for; empty for nothing. */
  static Optional<Kind> of(byte code) {
    return Arrays.stream(values()).filter(kind -> kind.code == code).findFirst();
  }
}
