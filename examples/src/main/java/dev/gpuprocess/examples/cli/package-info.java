/**
 * The command line {@code gpuprocess}. {@link dev.gpuprocess.examples.cli.Main} starts it, {@link
 * dev.gpuprocess.examples.cli.CommandLineTool} has the list of commands, each command is a class,
 * {@link dev.gpuprocess.examples.cli.Output} writes tables and JSON, and {@link
 * dev.gpuprocess.examples.cli.ExitCode} has the exit codes.
 */
@NullMarked
package dev.gpuprocess.examples.cli;

import org.jspecify.annotations.NullMarked;
