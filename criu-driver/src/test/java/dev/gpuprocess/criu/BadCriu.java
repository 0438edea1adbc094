package dev.gpuprocess.criu;

import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;

/** Drivers with a CRIU that misbehaves after its work is done, for tests in other packages. */
public final class BadCriu {

  private BadCriu() {}

  /** Returns a driver whose CRIU runs the scenario after the library has accepted the images. */
  public static CriuDriver afterWork(Path directory, String scenario) {
    CriuDriver driver =
        new RpcCriuDriver(FakeCriu.create(directory, "notify('post-dump') or exit 1; " + scenario));
    return (CriuDriver)
        Proxy.newProxyInstance(
            CriuDriver.class.getClassLoader(),
            new Class<?>[] {CriuDriver.class},
            (proxy, method, args) ->
                method.getName().equals("dump")
                    ? driver.dump(
                        (DumpRequest) args[0],
                        writing((DumpRequest) args[0], (DumpListener) args[1]))
                    : method.invoke(driver, args));
  }

  /** Creates a file to be sealed. */
  private static DumpListener writing(DumpRequest request, DumpListener listener) {
    return new DumpListener() {
      @Override
      public void postDump() {
        try {
          Files.writeString(request.images().resolve("inventory.img"), "no tree");
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
        listener.postDump();
      }
    };
  }
}
