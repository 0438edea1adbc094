package dev.gpuprocess.spi;

import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;

/**
 * What to dump, where to, and how. Immutable.
 *
 * @param process the root of the tree
 * @param images an existing, empty directory for the image files
 * @param work an existing directory for CRIU's log and statistics
 * @param options how to dump, with the deadline
 */
public record DumpRequest(ProcessIdentity process, Path images, Path work, DumpOptions options) {}
