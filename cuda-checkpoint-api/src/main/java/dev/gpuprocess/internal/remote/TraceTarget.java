package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.List;

/**
 * A process to trace, read before a thread is stopped.
 *
 * @param gadgets the instructions that remote calls use
 */
record TraceTarget(ProcessIdentity process, List<Mapping> mappings, Gadgets gadgets) {

  private static final int ATTEMPTS = 10;

  static TraceTarget of(ProcessIdentity process) throws UntraceableException {
    for (int attempt = 1; ; attempt++) {
      int thread = living(process);
      List<Mapping> mappings = ProcFs.memory(process.pid());
      try {
        return new TraceTarget(
            process, mappings, Gadgets.find(new ProcessMemory(thread), mappings));
      } catch (UntraceableException e) {
        if (living(process) == thread || attempt == ATTEMPTS) {
          throw e;
        }
      } catch (NativeCallException e) {
        throw Suitability.notPermitted(process);
      }
    }
  }

  private static int living(ProcessIdentity process) throws UntraceableException {
    return ProcFs.livingThread(process.pid())
        .map(ProcStat::pid)
        .orElseThrow(() -> Suitability.gone(process));
  }
}
