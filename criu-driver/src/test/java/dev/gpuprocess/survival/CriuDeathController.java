package dev.gpuprocess.survival;

import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;

/**
 * Dumps or restores in a JVM of its own, that is killed: it kills itself at the moment with the
 * given number, or its parent kills it at any time.
 */
final class CriuDeathController {

  static final String BEGINS = "begins";

  private CriuDeathController() {}

  /**
   * Runs until it is killed or done.
   *
   * @param args the deed, the pid, the place, the number of the moment or -1
   */
  public static void main(String[] args) {
    FaultPoints moments = new FaultPoints().at(Integer.parseInt(args[3]), Signals::killSelf);
    CriuDriver driver = WatchedCriu.of(new RpcCriuDriver(), moments::reached, CriuDeath.PATIENCE);
    System.out.println(BEGINS);
    CrashedVerb.valueOf(args[0]).act(driver, Integer.parseInt(args[1]), Path.of(args[2]));
  }
}
