package dev.gpuprocess.contract;

import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.time.Duration;
import java.util.function.LongFunction;
import java.util.function.LongPredicate;

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

  /**
   * Returns a CRIU that fails when it may kill the process, whose image is complete but not real.
   *
   * @param real does what is not meant
   * @param meant which process is dumped in this way, by its pid
   * @param failure what happens then, and the failure, by pid
   */
  public static CriuDriver whenItMayKill(
      CriuDriver real, LongPredicate meant, LongFunction<CriuException> failure) {
    return (CriuDriver)
        Proxy.newProxyInstance(
            CriuDriver.class.getClassLoader(),
            new Class<?>[] {CriuDriver.class},
            (proxy, method, args) -> {
              if (!method.getName().equals("dump")
                  || !meant.test(((DumpRequest) args[0]).process().pid())) {
                return method.invoke(real, args);
              }
              DumpRequest request = (DumpRequest) args[0];
              Files.writeString(request.images().resolve("inventory.img"), "no tree");
              ((DumpListener) args[1]).postDump();
              throw failure.apply(request.process().pid());
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
