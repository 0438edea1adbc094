package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.error.Fate;
import org.jspecify.annotations.Nullable;

/**
 * What became of the tree.
 *
 * @param fate as data; null when no tree is concerned
 * @param words for the middle of a sentence
 */
public record TreeOutcome(@Nullable Fate fate, String words) {}
