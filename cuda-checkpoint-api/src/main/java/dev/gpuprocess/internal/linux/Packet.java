package dev.gpuprocess.internal.linux;

import java.nio.ByteBuffer;

/**
 * A message from a {@link PacketSocket}.
 *
 * @param bytes the message
 * @param descriptor the descriptor that came with it, to be closed by the receiver; -1 for none
 * @param sender the pid of the sender as the kernel reports it; 0 unless {@link
 *     PacketSocket#askForSenders} was called
 */
public record Packet(ByteBuffer bytes, int descriptor, int sender) {}
