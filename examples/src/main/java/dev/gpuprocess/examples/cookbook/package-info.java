/** The recipes of docs/cookbook.md. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.cookbook;
