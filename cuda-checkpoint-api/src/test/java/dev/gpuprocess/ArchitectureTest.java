package dev.gpuprocess;

import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideOutsideOfPackages;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.House;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.linux.MappedFile;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What docs/dev/architecture.md says of the packages of this module. */
class ArchitectureTest {

  /** A package is exported by adding it here as well, not by chance. */
  private static final List<String> EXPORTED =
      List.of(
          "dev.gpuprocess",
          "dev.gpuprocess.cuda",
          "dev.gpuprocess.error",
          "dev.gpuprocess.image",
          "dev.gpuprocess.internal.launch to dev.gpuprocess.criu",
          "dev.gpuprocess.internal.linux to dev.gpuprocess.criu",
          "dev.gpuprocess.internal.proc to dev.gpuprocess.criu",
          "dev.gpuprocess.internal.remote to dev.gpuprocess.criu",
          "dev.gpuprocess.internal.text to dev.gpuprocess.criu",
          "dev.gpuprocess.internal.time to dev.gpuprocess.criu",
          "dev.gpuprocess.options",
          "dev.gpuprocess.report",
          "dev.gpuprocess.slot",
          "dev.gpuprocess.spi");

  private static final House HOUSE = House.of("cuda-checkpoint-api", GpuProcess.class);

  @Test
  void exportsWhatIsListed() throws IOException {
    assertEquals(EXPORTED, HOUSE.exports());
    Figures.add(HOUSE.figure());
  }

  @Test
  void publicMethodsAreOfPublicTypes() throws IOException {
    HOUSE.requireCallableMethods();
  }

  @Test
  void packagesFormNoCycles() {
    HOUSE.requireNoCycles();
  }

  @Test
  void onlyInternalTimeWaits() {
    HOUSE.requireNoOwnWaits();
  }

  @Test
  void onlyInternalProcMakesPathsOfProc() throws IOException {
    HOUSE.requirePathsOfProcFromProcFs();
  }

  @Test
  void onlyOneClassOpensMappedFiles() throws IOException {
    HOUSE.requireMappedFilesFromMappedFile();
  }

  /** A file of a process is never opened for writing, truncated or linked by way of the process. */
  @Test
  void mappedFilesAreHeldOrRead() {
    assertEquals(
        Set.of("Descriptors.hold", "Descriptors.close", "BlockFile.openHeld"),
        HOUSE.classes().get(MappedFile.class).getMethodCallsFromSelf().stream()
            .filter(
                call ->
                    call.getTargetOwner()
                        .getPackageName()
                        .startsWith("dev.gpuprocess.internal.linux"))
            .map(call -> call.getTargetOwner().getSimpleName() + "." + call.getName())
            .filter(call -> !call.startsWith("MappedFile."))
            .collect(Collectors.toSet()));
  }

  @Test
  void noProgramIsStartedByTheJdk() {
    HOUSE.requireNoOwnPrograms();
    House.of("src-test-fixtures", ProgramRun.class)
        .requireNoOwnPrograms(
            "AttributeProcess", "Captive", "Launch", "ProgramRun", "ProgramWatchdog", "Specimen");
  }

  @Test
  void listingsOfDirectoriesMayFail() {
    HOUSE.requireListingsMayFail();
  }

  @Test
  void internalsKnowNoStates() {
    noClasses()
        .that()
        .resideInAPackage("dev.gpuprocess.internal..")
        .should()
        .dependOnClassesThat()
        .resideInAPackage("dev.gpuprocess")
        .check(HOUSE.classes());
  }

  /** A slot is a program that uses the states, as others could write one. */
  @Test
  void nothingKnowsSlots() {
    noClasses()
        .that()
        .resideOutsideOfPackage("dev.gpuprocess.slot")
        .should()
        .dependOnClassesThat()
        .resideInAPackage("dev.gpuprocess.slot")
        .check(HOUSE.classes());
  }

  @Test
  void slotsUseTheStatesAndTheJournal() {
    noClasses()
        .that()
        .resideInAPackage("dev.gpuprocess.slot")
        .should()
        .dependOnClassesThat(
            resideInAPackage("dev.gpuprocess.internal..")
                .and(
                    resideOutsideOfPackages(
                        "dev.gpuprocess.internal.call",
                        "dev.gpuprocess.internal.linux",
                        "dev.gpuprocess.internal.proc",
                        "dev.gpuprocess.internal.state",
                        "dev.gpuprocess.internal.text",
                        "dev.gpuprocess.internal.time")))
        .check(HOUSE.classes());
  }

  /** The C functions and structs of libcuda and NVML are known in one package. */
  @Test
  void onlyTheBindingsKnowLibcuda() {
    noClasses()
        .that()
        .resideOutsideOfPackage("dev.gpuprocess.internal.cuda")
        .should()
        .dependOnClassesThat()
        .haveNameMatching("dev\\.gpuprocess\\.internal\\.cuda\\.(Cuda|Nvml)Functions")
        .check(HOUSE.classes());
  }

  @Test
  void onlyTheBindingsKnowC() {
    noClasses()
        .that()
        .resideOutsideOfPackages("dev.gpuprocess.internal.cuda", "dev.gpuprocess.internal.linux")
        .should()
        .dependOnClassesThat()
        .resideInAPackage("jnr..")
        .check(HOUSE.classes());
  }

  /** What a job names is opened with the permissions of the job, or not at all. */
  @Test
  void pathsOfJobsAreOpenedAsTheJob() {
    HOUSE.requireUntrustedPaths(
        List.of(
            "dev.gpuprocess.internal.attributes",
            "dev.gpuprocess.internal.dump",
            "dev.gpuprocess.internal.extras",
            "dev.gpuprocess.internal.inherited",
            "dev.gpuprocess.internal.launch",
            "dev.gpuprocess.internal.machine",
            "dev.gpuprocess.internal.restore"),
        Map.of(
            "a file of an image, which was verified or is being written",
            List.of(
                "ImageExtras.read",
                "MemoryDescriptors.open",
                "SharedFileContent.putBack",
                "SparseOutput.<init>",
                "TreeMounts.removeHidden"),
            "a file of the kernel",
            List.of("Cpu.read", "LandlockWitnesses.profile"),
            "a file in a directory that only the user of this JVM can change",
            List.of(
                "CudaJobFile.remove",
                "NativeFile.install",
                "NativeFile.isInstalled",
                "NativeFile.makeDirectory",
                "RequestChannel.close",
                "RequestChannel.open"),
            "is held first, opened only if it is what it should be, and no content is kept",
            List.of(
                "GpuRelease.openNullDevice",
                "OutsideFile.open",
                "PinnedFile.at",
                "PinnedFile.buildId")));
  }
}
