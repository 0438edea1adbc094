package dev.gpuprocess.criu;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.House;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The rules of docs/dev/architecture.md for the packages of this module. */
class ArchitectureTest {

  private static final String GENERATED = "dev.gpuprocess.criu.proto..";

  private static final House HOUSE = House.of("criu-driver", RpcCriuDriver.class);

  @Test
  void exportsWhatIsListed() throws IOException {
    assertEquals(List.of("dev.gpuprocess.criu"), HOUSE.exports());
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

  @Test
  void noProgramIsStartedByTheJdk() {
    HOUSE.requireNoOwnPrograms();
  }

  @Test
  void listingsOfDirectoriesMayFail() {
    HOUSE.requireListingsMayFail();
  }

  @Test
  void onlyTheConversationAndTheImagesKnowProtobuf() {
    noClasses()
        .that()
        .resideOutsideOfPackages(
            "dev.gpuprocess.criu.internal.images",
            "dev.gpuprocess.criu.internal.process",
            "dev.gpuprocess.criu.internal.rpc",
            GENERATED)
        .should()
        .dependOnClassesThat()
        .resideInAPackage("com.google.protobuf..")
        .check(HOUSE.classes());
  }

  /** Paths named by a process are opened with the permissions of that process. */
  @Test
  void pathsOfJobsAreOpenedAsTheJob() {
    HOUSE.requireUntrustedPaths(
        List.of(
            "dev.gpuprocess.criu.internal.dump",
            "dev.gpuprocess.criu.internal.links",
            "dev.gpuprocess.criu.internal.preflight",
            "dev.gpuprocess.criu.internal.restore",
            "dev.gpuprocess.criu.internal.tree"),
        Map.of(
            "a file of an image, which was verified or is being written",
            List.of(
                "DumpOperation.checkDirectories",
                "DumpOperation.imageFiles",
                "DumpOperation.removeImages",
                "HeldLink.create",
                "HeldLink.hasContent",
                "HeldLink.write",
                "HeldLinks.copy",
                "HeldLinks.in",
                "HeldLinks.write",
                "DumpOperation.requireReadable"),
            "a file in CRIU's own work directory",
            List.of(
                "RestoreOperation.requireDevices",
                "DumpOperation.once",
                "RestoreOperation.restore"),
            "a file of the kernel",
            List.of("LockCheck.lockedInodes")));
  }

  @Test
  void onlyTheBindingsKnowC() {
    noClasses()
        .that()
        .resideOutsideOfPackage("dev.gpuprocess.criu.internal.linux")
        .should()
        .dependOnClassesThat()
        .resideInAPackage("jnr..")
        .check(HOUSE.classes());
  }
}
