package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.List;

/**
 * What is looked up before a thread is stopped.
 *
 * @param process who
 * @param mappings what is mapped there
 * @param gadgets the instructions that are used
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

  /** A thread that has ended has no memory, the first one included. */
  private static int living(ProcessIdentity process) throws UntraceableException {
    return ProcFs.tasks(process.pid()).stream()
        .filter(thread -> !thread.isDead())
        .mapToInt(ProcStat::pid)
        .findFirst()
        .orElseThrow(() -> Suitability.gone(process));
  }
}
