package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.error.Fate;
import org.jspecify.annotations.Nullable;

/**
 * The fate of a tree.
 *
 * @param fate the fate, or null if no tree is concerned
 * @param words the same in words, for the middle of a sentence
 */
public record TreeOutcome(@Nullable Fate fate, String words) {}
