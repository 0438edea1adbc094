package dev.gpuprocess.examples.verification;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.Optional;
import org.junit.jupiter.api.Test;

class TrainerTest {

  @Test
  void returnsOneLineIfTrainingIsImpossible() {
    Optional<String> missing = Trainer.whyMissing();
    assumeTrue(missing.isPresent(), "this machine has PyTorch and a GPU");
    assertTrue(missing.get().matches(".*(python3|torch|PyTorch).*"), missing.get());
  }
}
