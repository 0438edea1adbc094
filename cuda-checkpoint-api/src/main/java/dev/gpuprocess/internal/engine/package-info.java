/** The verbs: driver calls on tracked processes, their order, deadlines and rollback. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.engine;
