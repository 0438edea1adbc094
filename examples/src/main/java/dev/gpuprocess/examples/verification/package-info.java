/** What {@code bin/gpu-verify} and {@code bin/gpu-survival} check on a machine with a GPU. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.verification;
