package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpCheck;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Runs all checks of the machine or of a process, in order. */
public final class Doctor {

  private final Checkup checkup = new Checkup();
  private final EngineContext context;
  private final HostCheckup host;

  public Doctor(EngineContext context) {
    this.context = context;
    this.host = new HostCheckup(checkup, Path.of("/"), Capabilities.ours());
  }

  public Diagnosis ofMachine(@Nullable Path images) {
    checkup.look("driver", new DriverCheckup(checkup, context)::look);
    checkup.look("CRIU", new CriuCheckup(checkup, context)::look);
    Duration deadline = context.timeouts().call();
    checkup.look("host", deadline, host::look);
    long onGpus = bytesOnGpus();
    checkup.look("host memory", deadline, () -> host.lookAtMemory(onGpus));
    checkup.look("state directory", deadline, () -> host.lookAtStateDirectory(context.state()));
    if (images != null) {
      checkup.look("image directory", deadline, () -> host.lookAtImageDirectory(images));
    }
    return checkup.diagnosis();
  }

  /** Returns the GPU memory in use; another check reports if NVML does not answer. */
  private long bytesOnGpus() {
    return new Checkup()
            .query("GPUs", context.timeouts().call(), context.gpus()::gpus)
            .flatMap(found -> found)
            .orElse(List.of())
            .stream()
            .flatMap(gpu -> gpu.users().stream())
            .mapToLong(user -> user.bytes().orElse(0))
            .sum();
  }

  public Diagnosis ofProcess(long pid, @Nullable Path image, DumpOptions options) {
    Optional<ProcessIdentity> identity = ProcessIdentity.of(pid);
    if (identity.isEmpty()) {
      checkup.problem("process " + pid, "does not exist", "check the pid");
      return checkup.diagnosis();
    }
    checkup.look(
        "process " + pid, () -> lookAt(identity.get(), image, context.criuOptions().of(options)));
    return checkup.diagnosis();
  }

  private void lookAt(ProcessIdentity identity, @Nullable Path image, DumpOptions options) {
    AmdCheckup amd = new AmdCheckup(checkup, context, AmdCheckup.DEVICE);
    boolean isAmd = amd.isAmdProcess(identity);
    ProcessCheckup process = new ProcessCheckup(checkup, context, identity, !isAmd);
    if (!process.look()) {
      return;
    }
    if (isAmd) {
      lookAtAmdProcess(identity, process, amd, image, options);
      return;
    }
    checkup.look("polls", process::lookAtPolls);
    TreeCheckup tree =
        new TreeCheckup(
            checkup, context, identity, process.driverAnswers(), options.releaseInheritedGpu());
    checkup.look("children", tree::lookAtChildren);
    process.lookAtLackOfCuda(tree.members().size());
    Map<ProcessIdentity, ProcessState> members = new LinkedHashMap<>();
    ProcessState own = process.state();
    if (own != null) {
      members.put(identity, own);
    }
    members.putAll(tree.members());
    if (!process.isPoisoned()) {
      checkup.look("GPU memory", () -> lookAtMemory(identity, members));
    }
    checkup.look("NCCL", () -> tree.lookAtNccl(process.state()));
    DumpCheck dump =
        new DumpCheck(
            context,
            identity,
            members.isEmpty() ? List.of(identity) : List.copyOf(members.keySet()),
            image == null ? Path.of("/") : image,
            options,
            members.values().stream().anyMatch(DumpCheck::isOnGpu),
            null);
    new CriuCheckup(checkup, context)
        .driverForDump()
        .ifPresent(criu -> process.lookAtDump(criu, dump));
    lookAtPlace(dump, image);
  }

  private void lookAtMemory(ProcessIdentity root, Map<ProcessIdentity, ProcessState> members) {
    MemoryCheckup memory = new MemoryCheckup(checkup, context, root);
    List<ProcessIdentity> suspended = new ArrayList<>();
    List<ProcessIdentity> onGpus = new ArrayList<>();
    members.forEach(
        (each, state) -> (state == ProcessState.CHECKPOINTED ? suspended : onGpus).add(each));
    if (!suspended.isEmpty()) {
      memory.checkResumeCapacity(suspended);
    }
    memory.checkSuspendCapacity(onGpus);
  }

  /** Checks a process for which the CUDA driver and NVML report nothing. */
  private void lookAtAmdProcess(
      ProcessIdentity root,
      ProcessCheckup process,
      AmdCheckup amd,
      @Nullable Path image,
      DumpOptions options) {
    TreeCheckup tree = new TreeCheckup(checkup, context, root, false, false);
    checkup.look("children", tree::lookAtChildren);
    DumpCheck dump =
        new DumpCheck(
            context,
            root,
            List.of(),
            image == null ? Path.of("/") : image,
            options,
            false,
            GpuPlugin.AMDGPU);
    new CriuCheckup(checkup, context)
        .driverForDump()
        .ifPresent(
            criu -> {
              amd.lookAtPlugin(criu);
              process.lookAtDump(criu, dump);
            });
    lookAtPlace(dump, image);
  }

  private void lookAtPlace(DumpCheck dump, @Nullable Path image) {
    if (image != null) {
      dump.looks()
          .forEach(
              (subject, look) ->
                  checkup
                      .query(subject, context.timeouts().call(), look)
                      .ifPresent(found -> checkup.ok(subject, found)));
    }
  }
}
