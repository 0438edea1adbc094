package dev.gpuprocess.survival;

import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Arrays;
import java.util.function.Consumer;
import java.util.function.ObjIntConsumer;

/** A CRIU that reports its stages, and is aborted at a deadline. */
final class WatchedCriu {

  static final String STAGE = "CRIU ";

  /** From this stage on CRIU kills the tree. */
  static final String MAY_KILL = STAGE + "may kill";

  /** The stage after which CRIU may kill the tree. */
  private static final String COMPLETE = "postDump";

  private final ObjIntConsumer<String> moments;
  private final Duration deadline;

  private WatchedCriu(ObjIntConsumer<String> moments, Duration deadline) {
    this.moments = moments;
    this.deadline = deadline;
  }

  static CriuDriver of(CriuDriver driver, Consumer<String> moments, Duration deadline) {
    return ofProcess(driver, (moment, pid) -> moments.accept(moment), deadline);
  }

  /** Reports for each stage also the pid of the process. */
  static CriuDriver ofProcess(
      CriuDriver driver, ObjIntConsumer<String> moments, Duration deadline) {
    WatchedCriu watched = new WatchedCriu(moments, deadline);
    return proxy(CriuDriver.class, (method, args) -> call(method, driver, watched.replace(args)));
  }

  private Object[] replace(Object[] args) {
    Object[] replaced = new Object[args.length];
    int pid = Arrays.stream(args).mapToInt(WatchedCriu::pid).max().orElse(0);
    for (int i = 0; i < args.length; i++) {
      replaced[i] = replace(args[i], pid);
    }
    return replaced;
  }

  /** Returns the pid of a request; otherwise 0. */
  private static int pid(Object argument) {
    if (argument instanceof DumpRequest dump) {
      return dump.process().pid();
    }
    return argument instanceof RestoreRequest restore ? restore.pid() : 0;
  }

  private Object replace(Object argument, int pid) {
    if (argument instanceof DumpRequest dump) {
      return new DumpRequest(
          dump.process(),
          dump.images(),
          dump.work(),
          dump.options().toBuilder().deadline(deadline).build());
    }
    if (argument instanceof RestoreRequest restore) {
      return restore.with(restore.options().toBuilder().deadline(deadline).build());
    }
    if (argument instanceof DumpListener listener) {
      return proxy(DumpListener.class, (method, args) -> tell(method, listener, args, pid));
    }
    if (argument instanceof RestoreListener listener) {
      return proxy(RestoreListener.class, (method, args) -> tell(method, listener, args, pid));
    }
    return argument;
  }

  private Object tell(Method stage, Object listener, Object[] args, int pid) throws Throwable {
    moments.accept(STAGE + stage.getName(), pid);
    Object answer = call(stage, listener, args);
    if (stage.getName().equals(COMPLETE)) {
      moments.accept(MAY_KILL, pid);
    }
    return answer;
  }

  private static Object call(Method method, Object object, Object[] args) throws Throwable {
    try {
      return method.invoke(object, args);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  /** A proxy, so that future methods of the interfaces are passed on as well. */
  private interface Handler {
    Object handle(Method method, Object[] args) throws Throwable;
  }

  private static <T> T proxy(Class<T> type, Handler handler) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, args) -> handler.handle(method, args == null ? new Object[0] : args)));
  }
}
