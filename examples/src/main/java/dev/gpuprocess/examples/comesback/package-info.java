/** Dumps processes with random attributes and judges whether they come back unchanged. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.comesback;
