/**
 * The part of an image that is not CRIU's: what CRIU does not restore and this library does, and
 * the options of a dump that its restore repeats.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.extras;
