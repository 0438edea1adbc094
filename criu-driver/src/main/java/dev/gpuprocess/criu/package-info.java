/**
 * {@link dev.gpuprocess.spi.CriuDriver} over CRIU's RPC.
 *
 * <p>Start at {@link dev.gpuprocess.criu.RpcCriuDriver}. Each call starts its own {@code criu swrk}
 * with one inherited descriptor, talks to it on the calling thread, and has reaped it when it
 * returns or throws; if this JVM is not root, a command such as {@code sudo -n} runs that CRIU as
 * root. Calls may run at the same time. Failures are those of {@code dev.gpuprocess.error}; each
 * exception has the fate of the process tree.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu;
