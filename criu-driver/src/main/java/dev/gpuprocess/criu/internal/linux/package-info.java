/** Child processes, and the functions of Linux that only CRIU's processes need. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.linux;
