/** Files, descriptors and native libraries, where the JDK has no word for what is needed. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.os;
