@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.comesback;
