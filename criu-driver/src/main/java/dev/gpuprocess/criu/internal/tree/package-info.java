/** What the kernel reports about the processes of a tree. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.tree;
