/** Files, descriptors, signals and native libraries: what the JDK lacks. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.linux;
