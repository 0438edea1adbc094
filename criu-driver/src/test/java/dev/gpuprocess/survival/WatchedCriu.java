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
import java.util.function.Consumer;

/** A CRIU that tells its stages, and is given up at a deadline. */
final class WatchedCriu {

  static final String STAGE = "CRIU ";

  /** The stage after which CRIU may kill the tree. */
  private static final String COMPLETE = "postDump";

  private final Consumer<String> moments;
  private final Duration deadline;

  private WatchedCriu(Consumer<String> moments, Duration deadline) {
    this.moments = moments;
    this.deadline = deadline;
  }

  static CriuDriver of(CriuDriver driver, Consumer<String> moments, Duration deadline) {
    WatchedCriu watched = new WatchedCriu(moments, deadline);
    return proxy(CriuDriver.class, (method, args) -> call(method, driver, watched.replace(args)));
  }

  private Object[] replace(Object[] args) {
    Object[] replaced = new Object[args.length];
    for (int i = 0; i < args.length; i++) {
      replaced[i] = replace(args[i]);
    }
    return replaced;
  }

  private Object replace(Object argument) {
    if (argument instanceof DumpRequest dump) {
      return new DumpRequest(
          dump.process(),
          dump.images(),
          dump.work(),
          dump.options().toBuilder().deadline(deadline).build());
    }
    if (argument instanceof RestoreRequest restore) {
      return new RestoreRequest(
          restore.images(),
          restore.work(),
          restore.pid(),
          restore.options().toBuilder().deadline(deadline).build());
    }
    if (argument instanceof DumpListener listener) {
      return proxy(DumpListener.class, (method, args) -> tell(method, listener, args));
    }
    if (argument instanceof RestoreListener listener) {
      return proxy(RestoreListener.class, (method, args) -> tell(method, listener, args));
    }
    return argument;
  }

  private Object tell(Method stage, Object listener, Object[] args) throws Throwable {
    moments.accept(STAGE + stage.getName());
    Object answer = call(stage, listener, args);
    if (stage.getName().equals(COMPLETE)) {
      moments.accept(STAGE + "may kill");
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

  /** So that a method that the interfaces get one day is handed on as well. */
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
