package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.StepListener;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two copies of this library in one JVM, as in an application server. */
class ClassLoadersTest {

  @TempDir Path state;

  /** Called in the other copy: tries to lock, and gives the message of what came of it. */
  static String tryLock(String machine, String state, long pid) {
    Path directory = Path.of(machine);
    try {
      return GpuCheckpoints.builder()
          .cuda(directory)
          .stateDirectory(Path.of(state))
          .build()
          .process(pid)
          .lock()
          .toString();
    } catch (GpuCheckpointException e) {
      return e.getMessage();
    }
  }

  private static String tryLockInOtherLoader(SimulatedDriver machine, Path state, long pid)
      throws IOException, ReflectiveOperationException {
    List<URL> urls = new ArrayList<>();
    String classPath =
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    for (String entry : classPath.split(File.pathSeparator)) {
      urls.add(new File(entry).toURI().toURL());
    }
    try (URLClassLoader loader =
        new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
      Method tryLock =
          loader
              .loadClass(ClassLoadersTest.class.getName())
              .getDeclaredMethod("tryLock", String.class, String.class, long.class);
      tryLock.setAccessible(true);
      return (String) tryLock.invoke(null, machine.directory().toString(), state.toString(), pid);
    }
  }

  @Test
  @OutsideUse("A10")
  void verb_otherClassLoaderComesAndGoes_excludesItAndStillEveryOtherJvm() throws Exception {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine);
        RemoteController other = RemoteController.start(machine, state)) {
      CountDownLatch begun = new CountDownLatch(1);
      StepListener beginning =
          new StepListener() {
            @Override
            public void started(String name, int pid) {
              begun.countDown();
            }
          };
      RunningProcess running =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(state)
              .listener(beginning)
              .build()
              .process(counter.pid());
      machine.faults(Fault.in("cuCheckpointProcessLock").call(1).hangs());
      CompletableFuture<LockedProcess> going = CompletableFuture.supplyAsync(running::lock);
      begun.await();
      String refused = tryLockInOtherLoader(machine, state, counter.pid());
      String refusedToo = other.say("lock", counter.pid());
      assertTrue(refusedToo.startsWith("OperationInProgressException"), refusedToo);
      assertTrue(
          refused.contains(
              "in the middle of lock by this JVM (pid " + ProcessHandle.current().pid()),
          refused);
      machine.clearFaults();
      going.join().unlock();
      assertEquals(101, counter.increment());
    }
  }
}
