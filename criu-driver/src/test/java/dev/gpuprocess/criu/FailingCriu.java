package dev.gpuprocess.criu;

import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.spi.CriuDriver;
import java.lang.reflect.Proxy;
import java.time.Duration;

/** A CRIU that fails when its image is complete. */
public final class FailingCriu {

  private FailingCriu() {}

  /**
   * Returns a CRIU whose dumps fail once they are done.
   *
   * @param real makes the dumps
   * @param pid the process of the failure
   * @param fate of the process
   * @param death what happens between the dump and the failure
   */
  public static CriuDriver afterADump(CriuDriver real, long pid, Fate fate, Runnable death) {
    return (CriuDriver)
        Proxy.newProxyInstance(
            CriuDriver.class.getClassLoader(),
            new Class<?>[] {CriuDriver.class},
            (proxy, method, args) -> {
              Object answer = method.invoke(real, args);
              if (method.getName().equals("dump")) {
                death.run();
                throw failure(pid, fate);
              }
              return answer;
            });
  }

  /** Returns the exception of a CRIU that has failed. */
  public static CriuException failure(long pid, Fate fate) {
    return new CriuException(
        "CRIU did not end well",
        new Failure("dump", pid, null, null, Duration.ZERO, null, fate),
        CriuFailure.NOT_STARTED,
        null);
  }
}
