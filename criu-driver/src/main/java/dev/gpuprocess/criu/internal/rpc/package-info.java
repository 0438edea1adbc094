/** Requests in the words of CRIU's RPC. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.rpc;
