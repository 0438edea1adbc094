/**
 * The state directory, where the controllers of a machine meet, and the locks in it: one controller
 * at a time works on a process.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.lock;
