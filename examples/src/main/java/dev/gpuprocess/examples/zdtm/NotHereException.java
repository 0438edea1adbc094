package dev.gpuprocess.examples.zdtm;

/** Thrown for a program that cannot be tried here, with the reason. */
final class NotHereException extends Exception {

  private static final long serialVersionUID = 1L;

  NotHereException(String why) {
    super(why);
  }
}
