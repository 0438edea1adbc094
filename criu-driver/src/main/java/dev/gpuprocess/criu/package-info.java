/**
 * {@link dev.gpuprocess.spi.CriuDriver} over CRIU's RPC, or by its command line.
 *
 * <p>Start at {@link dev.gpuprocess.criu.RpcCriuDriver}. Each call starts its own {@code criu swrk}
 * with one inherited descriptor, talks to it on the calling thread, and has reaped it when it
 * returns or throws. {@link dev.gpuprocess.criu.CliCriuDriver} does the same with a command such as
 * {@code sudo -n criu}, and {@link dev.gpuprocess.criu.AutomaticCriuDriver} takes what works here.
 * Calls may run at the same time. Failures are those of {@code dev.gpuprocess.error}; whatever
 * fails, the exception says what became of the process tree.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu;
