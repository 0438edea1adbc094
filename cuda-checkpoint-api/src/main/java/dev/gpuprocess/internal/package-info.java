/**
 * What the modules of this library share and users do not see; exported to the CRIU driver alone.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal;
