/**
 * What this library needs from CRIU, independent of CRIU's protocol. Implement {@link
 * dev.gpuprocess.spi.CriuDriver} to dump processes in another way; the module {@code
 * dev.gpuprocess.criu} is the one that talks to CRIU.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.spi;
