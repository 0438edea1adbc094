/** Names of files that CRIU makes at a dump and that a restore needs. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.links;
