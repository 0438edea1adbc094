/**
 * What this library needs of CRIU, in its own words. Implement {@link
 * dev.gpuprocess.spi.CriuDriver} to bring another way of dumping processes; the module {@code
 * dev.gpuprocess.criu} is the one that talks to CRIU.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.spi;
