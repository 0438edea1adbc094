package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A JVM that has no descriptors left. */
@Tag("jdk")
class DescriptorsTest {

  /** JNR fills an array after a failed call too, with what are not descriptors of ours. */
  @Test
  @OutsideUse("A6")
  void criuCannotBeStarted_nothingOfOthersIsClosed_andNoLogStays() {
    RealCriu.assume();
    List<String> command = new ArrayList<>(Hoard.launcher());
    command.addAll(List.of(TestJvm.java(), "-cp", TestJvm.classPath()));
    command.add(Descriptorless.class.getName());
    command.addAll(RealCriu.command());
    String said = Command.run(command.toArray(String[]::new));
    assertTrue(said.contains(Descriptorless.REFUSED), said);
    assertTrue(Integer.parseInt(said.replaceAll("(?s).*" + Descriptorless.REFUSED, "")) > 3, said);
  }
}
