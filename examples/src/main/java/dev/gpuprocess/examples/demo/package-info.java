/** The main job step by step, the doctor, and classes that all examples use. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.demo;
