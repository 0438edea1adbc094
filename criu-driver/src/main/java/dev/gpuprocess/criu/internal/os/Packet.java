package dev.gpuprocess.criu.internal.os;

import java.nio.ByteBuffer;

/**
 * One message from CRIU.
 *
 * @param bytes the message
 * @param descriptor the descriptor that came with it, now ours to close; -1 for none
 * @param sender the pid of the process that sent it, as the kernel reports it; 0 if it was not
 *     asked
 */
public record Packet(ByteBuffer bytes, int descriptor, int sender) {}
