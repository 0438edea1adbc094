/**
 * Text that goes in and out: names from outside made printable, sizes in words, paths as the kernel
 * wants them.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.text;
