/**
 * The agent of a node: the verbs over gRPC, metrics, and images with a retention
 * (docs/kubernetes.md).
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.agent;
