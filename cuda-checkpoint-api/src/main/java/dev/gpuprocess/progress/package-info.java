/** What verbs tell while they run, and afterwards: their steps. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.progress;
