/**
 * The words of {@link dev.gpuprocess.DumpOptions} and {@link dev.gpuprocess.RestoreOptions}:
 * mounts, cgroups, namespaces, sockets and files outside the tree. All immutable.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.options;
