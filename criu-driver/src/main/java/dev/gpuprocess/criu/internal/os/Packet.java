package dev.gpuprocess.criu.internal.os;

import java.nio.ByteBuffer;

/**
 * One message from CRIU.
 *
 * @param bytes the message
 * @param descriptor what came with it, now ours to close; -1 for nothing
 * @param sender the pid of the process that sent it, as the kernel says; 0 when it was not asked
 */
public record Packet(ByteBuffer bytes, int descriptor, int sender) {}
