/** The program of {@code bin/criu-zdtm}, which runs CRIU's own test programs. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.zdtm;
