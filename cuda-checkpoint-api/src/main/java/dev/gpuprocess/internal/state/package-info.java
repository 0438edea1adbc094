/**
 * The state directory, which all controllers of one user on this machine share: the locks, so that
 * one verb at a time works on a process, the generations, and the journal, which records each step
 * before it begins, so that a recovery can bring a process back if its controller dies.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.state;
