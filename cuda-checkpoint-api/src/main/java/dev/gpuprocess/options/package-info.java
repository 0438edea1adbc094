/**
 * The words of {@link dev.gpuprocess.options.DumpOptions} and {@link
 * dev.gpuprocess.options.RestoreOptions}: mounts, cgroups, namespaces, sockets and files outside
 * the tree. All immutable.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.options;
