/** What an image needs of a machine: recorded at a dump, compared before a restore. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.machine;
