package dev.gpuprocess.examples;

import dev.gpuprocess.contract.House;
import dev.gpuprocess.examples.cli.Main;
import org.junit.jupiter.api.Test;

/** What docs/dev/architecture.md says of the products and the laboratory. */
class ArchitectureTest {

  private static final House HOUSE = House.of("examples", Main.class);

  /** Those that are named start processes that live on, and talk to them. */
  @Test
  void programsAreRunInOneClass() {
    HOUSE.requireNoOwnPrograms("BenchSubject", "Restorer", "ServingEngine", "SlotDemo", "Trainer");
  }
}
