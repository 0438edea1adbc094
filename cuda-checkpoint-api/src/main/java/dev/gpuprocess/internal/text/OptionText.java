package dev.gpuprocess.internal.text;

/**
 * How messages name an option that cures a failure: as the Java call that sets it. The command line
 * prints its own form in that place, so all messages have the call from here.
 */
public final class OptionText {

  private OptionText() {}

  /**
   * Returns the call that sets an option of CRIU.
   *
   * @param setting such as {@code ghost-limit=64M}
   */
  public static String criu(String setting) {
    return "CriuOptions.set(\"" + setting + "\")";
  }
}
