/** The programs that check the library on a machine with a GPU, and the summary of bin/verify. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.verification;
