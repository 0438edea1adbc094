/**
 * What can be set for verbs: {@link dev.gpuprocess.options.DumpOptions}, {@link
 * dev.gpuprocess.options.RestoreOptions}, {@link dev.gpuprocess.options.ResumeOptions}, {@link
 * dev.gpuprocess.options.LaunchOptions} and {@link dev.gpuprocess.options.Timeouts}, and the types
 * of their values. All are immutable, except {@link dev.gpuprocess.options.Cancellation}.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.options;
