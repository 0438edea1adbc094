package dev.gpuprocess.examples.zdtm;

/** A program is no subject here, with the reason. */
final class NotHereException extends Exception {

  private static final long serialVersionUID = 1L;

  NotHereException(String why) {
    super(why);
  }
}
