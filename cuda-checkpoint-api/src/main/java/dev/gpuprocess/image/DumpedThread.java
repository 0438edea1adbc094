package dev.gpuprocess.image;

/**
 * A thread of a dumped process.
 *
 * @param id its thread id
 * @param name what the kernel calls it, up to 15 characters
 * @param filtered whether a seccomp filter limits it
 */
public record DumpedThread(int id, String name, boolean filtered) {}
