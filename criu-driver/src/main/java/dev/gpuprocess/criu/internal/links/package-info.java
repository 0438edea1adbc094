/** Links to files that CRIU creates during a dump and that a restore needs. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.links;
