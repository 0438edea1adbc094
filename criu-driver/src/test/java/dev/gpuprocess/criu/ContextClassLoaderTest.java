package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.GpuCheckpoints;
import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/**
 * The library in a class loader of its own, as in a plugin or a Spring Boot jar, on threads with
 * another context class loader.
 */
class ContextClassLoaderTest {

  private static final ClassLoader PLATFORM = ClassLoader.getPlatformClassLoader();

  private static URLClassLoader plugin() throws Exception {
    List<URL> urls = new ArrayList<>();
    String classPath =
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    for (String entry : classPath.split(File.pathSeparator)) {
      urls.add(new File(entry).toURI().toURL());
    }
    return new URLClassLoader(urls.toArray(new URL[0]), PLATFORM);
  }

  /** Returns the class loader of the CRIU driver that the library finds. */
  private static ClassLoader found(ClassLoader plugin) throws Exception {
    Class<?> library = plugin.loadClass(GpuCheckpoints.class.getName());
    Object standard = library.getMethod("standard").invoke(null);
    return library.getMethod("criu").invoke(standard).getClass().getClassLoader();
  }

  private static <T> T onThreadWith(ClassLoader context, Callable<T> task) throws Exception {
    FutureTask<T> future = new FutureTask<>(task);
    Thread thread = new Thread(future);
    thread.setContextClassLoader(context);
    thread.start();
    return future.get(3, TimeUnit.MINUTES);
  }

  @Test
  void libraryOfAPlugin_findsItsDriverOnEveryThread() throws Exception {
    try (URLClassLoader plugin = plugin()) {
      assertEquals(
          plugin,
          ForkJoinPool.commonPool().submit(() -> found(plugin)).get(3, TimeUnit.MINUTES),
          "the application has a copy of the library of its own");
      assertEquals(plugin, onThreadWith(PLATFORM, () -> found(plugin)), "no library there");
      assertEquals(plugin, onThreadWith(plugin, () -> found(plugin)));
      GpuCheckpoints ours = GpuCheckpoints.standard();
      assertEquals(
          RpcCriuDriver.class,
          onThreadWith(plugin, () -> ours.criu().getClass()),
          "a plugin calls the library of the application");
    }
  }
}
