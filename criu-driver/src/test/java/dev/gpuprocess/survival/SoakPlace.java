package dev.gpuprocess.survival;

import java.nio.file.Path;
import java.util.List;

/**
 * Where a controller of the soak works.
 *
 * @param machine the simulated machine
 * @param state the state directory
 * @param images where images go
 * @param crowdMachine another machine, with a full GPU
 * @param crowdState the state directory for that one
 * @param marks where driver calls make a mark
 * @param squat has state directories that must not be used
 */
record SoakPlace(
    Path machine,
    Path state,
    Path images,
    Path crowdMachine,
    Path crowdState,
    Path marks,
    Path squat) {

  /** As arguments of a program. */
  List<String> arguments() {
    return List.of(machine, state, images, crowdMachine, crowdState, marks, squat).stream()
        .map(Path::toString)
        .toList();
  }

  /** Reads them. */
  static SoakPlace of(List<String> arguments) {
    List<Path> paths = arguments.stream().map(Path::of).toList();
    return new SoakPlace(
        paths.get(0),
        paths.get(1),
        paths.get(2),
        paths.get(3),
        paths.get(4),
        paths.get(5),
        paths.get(6));
  }
}
