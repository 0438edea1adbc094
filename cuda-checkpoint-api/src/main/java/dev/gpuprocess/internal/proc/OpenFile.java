package dev.gpuprocess.internal.proc;

/**
 * An open descriptor of a process.
 *
 * @param number the descriptor
 * @param target the target of {@code /proc/PID/fd/N}: a path, or {@code socket:[N]} and the like
 */
public record OpenFile(int number, String target) {}
