/**
 * Tests that hold for every implementation of a seam, for you to extend: published as the test jar
 * with the classifier {@code contract}.
 */
package dev.gpuprocess.contract;
