package dev.gpuprocess.survival;

/** The fate of the process, read from the process. */
enum Verdict {
  RUNS('r', "it runs on"),
  SUSPENDED('s', "it was suspended as requested, and resumes"),
  MENDED('m', "inspect found it locked or suspended, and it runs after unlock or resume"),
  IMAGE('i', "it was gone, and its image brought it back"),
  ENDED('e', "the case itself killed it, and nothing of it was left"),
  POISONED('p', "the driver says its restore ran out of memory, and there was no image (#44)"),
  FAILED('f', "the driver says it broke in the middle (FAILED), and there was no image"),
  LOST('L', "none of these");

  final char letter;
  final String meaning;

  Verdict(char letter, String meaning) {
    this.letter = letter;
    this.meaning = meaning;
  }
}
