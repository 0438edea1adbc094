/** The drivers and settings that the verbs work with. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.context;
