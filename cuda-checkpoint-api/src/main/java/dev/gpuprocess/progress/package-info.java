/** How verbs report: the steps that they go through, and the outcome of a recovery. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.progress;
