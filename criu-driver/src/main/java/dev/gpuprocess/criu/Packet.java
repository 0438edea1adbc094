package dev.gpuprocess.criu;

import java.nio.ByteBuffer;

/**
 * One message from CRIU.
 *
 * @param bytes the message
 * @param descriptor what came with it, now ours to close; -1 for nothing
 */
record Packet(ByteBuffer bytes, int descriptor) {}
