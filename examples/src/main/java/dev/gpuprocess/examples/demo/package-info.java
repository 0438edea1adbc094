/** The main job shown step by step, and what the doctor says of this machine. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.demo;
