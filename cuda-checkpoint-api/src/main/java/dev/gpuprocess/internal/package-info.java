/** What the modules of this library share and users have no part in. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal;
