/** What CRIU leaves behind: its log, its statistics, and the exception that is made of them. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.log;
