/** CRIU's own test programs as subjects: what {@code bin/criu-zdtm} runs. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.zdtm;
