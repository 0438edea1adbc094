package dev.gpuprocess.survival;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.criu.Hoard;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/**
 * A controller of the soak in a JVM of its own, with the library twice, in two class loaders. It is
 * told what to do line by line. From the second round on it has no descriptors at times.
 */
final class SoakController {

  /** The end of an answer. */
  static final String END = "end";

  private static final int WORKERS = 2;
  private static final int GUESTS = 1;
  private static final int LONGEST_PLENTY_MILLIS = 1500;
  private static final int LONGEST_WANT_MILLIS = 150;

  private final List<Function<String, List<String>>> shifts;
  private boolean warm;

  private SoakController(List<Function<String, List<String>>> shifts) {
    this.shifts = shifts;
  }

  /**
   * Works until its input ends.
   *
   * @param args the place, its name, and a seed
   * @throws Exception when it cannot work
   */
  public static void main(String[] args) throws Exception {
    List<URL> urls = new ArrayList<>();
    for (String path : TestJvm.classPath().split(File.pathSeparator)) {
      urls.add(Path.of(path).toUri().toURL());
    }
    ClassLoader own = SoakController.class.getClassLoader();
    ClassLoader other =
        new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    Hoard.loadClasses(own);
    Hoard.loadClasses(other);
    SoakController controller =
        new SoakController(
            List.of(shift(own, args, "", WORKERS), shift(other, args, "-guest", GUESTS)));
    try (BufferedReader orders =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String order = orders.readLine(); order != null; order = orders.readLine()) {
        controller.obey(order);
      }
    }
    System.exit(0);
  }

  @SuppressWarnings("unchecked") // another class loader's, of JDK types
  private static Function<String, List<String>> shift(
      ClassLoader loader, String[] args, String suffix, int workers)
      throws ReflectiveOperationException {
    List<String> arguments = new ArrayList<>(List.of(args));
    String seed = arguments.remove(arguments.size() - 1);
    String name = arguments.remove(arguments.size() - 1);
    arguments.addAll(List.of(name + suffix, Integer.toString(workers), seed));
    Object shift =
        Class.forName(SoakShift.class.getName(), true, loader)
            .getConstructor(List.class)
            .newInstance(arguments);
    return (Function<String, List<String>>) shift;
  }

  private void obey(String order) {
    if (order.equals(SoakShift.LEAKS)) {
      shifts.forEach(shift -> shift.apply(order).forEach(System.out::println));
    } else {
      round(SoakOrder.read(order));
    }
    System.out.println(END);
  }

  private void round(SoakOrder order) {
    List<CompletableFuture<List<String>>> working = new ArrayList<>();
    for (int i = 0; i < shifts.size(); i++) {
      // The quiet job has one owner.
      SoakOrder own =
          new SoakOrder(
              order.seed() + i,
              order.millis(),
              order.pids(),
              i == 0 ? order.quiet() : 0,
              order.crowd());
      Function<String, List<String>> shift = shifts.get(i);
      working.add(CompletableFuture.supplyAsync(() -> shift.apply(own.line())));
    }
    if (warm) {
      starve(new Random(order.seed()), order.millis());
    }
    working.forEach(shift -> shift.join().forEach(System.out::println));
    if (!warm) {
      warm = true;
      shifts.forEach(shift -> shift.apply(SoakShift.WARM).forEach(System.out::println));
    }
  }

  private static void starve(Random random, long millis) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    while (true) {
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random.nextInt(LONGEST_PLENTY_MILLIS)));
      if (System.nanoTime() > end) {
        return;
      }
      try (Hoard all = new Hoard(0)) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random.nextInt(LONGEST_WANT_MILLIS)));
      }
    }
  }
}
