/** Requests in CRIU's RPC protocol. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.rpc;
