/** The verbs: driver calls on tracked processes, their order, their deadlines and their undo. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.engine;
