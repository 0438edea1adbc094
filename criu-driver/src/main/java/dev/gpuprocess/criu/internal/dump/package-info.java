/** A dump or a pre-dump, from the first look to the verdict. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.dump;
