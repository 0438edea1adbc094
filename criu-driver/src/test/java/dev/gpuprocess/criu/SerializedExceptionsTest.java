package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.TreeFailure;
import dev.gpuprocess.error.UnsupportedResource;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** An exception that is sent to another JVM, as test workers, RMI and schedulers do. */
class SerializedExceptionsTest {

  private static final Failure FAILURE =
      new Failure(
          "restore",
          4711,
          ProcessState.CHECKPOINTED,
          ProcessState.LOCKED,
          Duration.ofSeconds(3),
          CudaResult.OUT_OF_MEMORY,
          Fate.UNKNOWN);

  private static final CriuFailure CRIU =
      new CriuFailure(
          17, "exited", "first", List.of("one"), Path.of("/images/dump.log"), "tail", "stderr");

  private static final MachineDifference DIFFERENCE =
      new MachineDifference(MachineDifference.Aspect.GPU, "GPU 0", "H100", "H200", true);

  private static final UnsupportedResource RESOURCE =
      new UnsupportedResource(
          UnsupportedResource.Kind.OTHER,
          4711,
          "descriptor 3",
          "/dev/nvidia0",
          "CriuOptions.external");

  private static final GpuShortage SHORTAGE =
      new GpuShortage(
          GpuUuid.of("GPU-00000000-0000-0000-0000-000000000001"), 9, 8, 7, List.of(1, 2));

  private static final TreeFailure TREE =
      new TreeFailure(4711, List.of(4712), Map.of(4712, ProcessState.LOCKED));

  private static final Map<Class<?>, Object> SAMPLES =
      Map.of(
          Failure.class,
          FAILURE,
          CriuFailure.class,
          CRIU,
          MachineDifference.class,
          DIFFERENCE,
          UnsupportedResource.class,
          RESOURCE,
          GpuShortage.class,
          SHORTAGE,
          String.class,
          "some words",
          Path.class,
          Path.of("/images/kept"),
          int.class,
          11,
          long.class,
          12L,
          OptionalLong.class,
          OptionalLong.of(13));

  static List<Class<?>> types() {
    return new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages("dev.gpuprocess")
            .stream()
            .filter(each -> each.isAssignableTo(GpuCheckpointException.class))
            .<Class<?>>map(JavaClass::reflect)
            .filter(each -> !Modifier.isAbstract(each.getModifiers()))
            .sorted(Comparator.comparing(Class::getName))
            .toList();
  }

  @ParameterizedTest
  @MethodSource("types")
  void keepsItsData(Class<?> type) throws Exception {
    int made = 0;
    for (Constructor<?> each : type.getDeclaredConstructors()) {
      each.setAccessible(true);
      GpuCheckpointException original =
          (GpuCheckpointException)
              each.newInstance(
                  Stream.of(each.getGenericParameterTypes())
                      .map(SerializedExceptionsTest::sample)
                      .toArray());
      original.leftAt(FAILURE, "the process is locked");
      original.inTree(TREE);
      original.addSuppressed(new IllegalStateException("suppressed"));
      GpuCheckpointException copy = copied(original);
      assertEquals(data(original), data(copy));
      assertEquals(original.getMessage(), copy.getMessage());
      assertTrue(String.valueOf(copy.getMessage()).contains("the process is locked"));
      assertEquals(FAILURE, copy.failure());
      assertEquals(TREE, copy.tree().orElseThrow());
      assertEquals(1, copy.getSuppressed().length);
      made++;
    }
    assertTrue(made > 0);
  }

  private static Object sample(Type type) {
    if (type instanceof ParameterizedType generic) {
      Object element = sample(generic.getActualTypeArguments()[0]);
      return generic.getRawType().equals(Set.class) ? Set.of(element) : List.of(element);
    }
    Class<?> raw = (Class<?>) type;
    if (raw.isAssignableFrom(IllegalStateException.class)) {
      return new IllegalStateException("cause");
    }
    if (raw.isAssignableFrom(IOException.class)) {
      return new IOException("cause");
    }
    if (raw.isAssignableFrom(ImageException.Reason.class)) {
      return ImageException.Reason.MISSING;
    }
    return raw.isEnum() ? raw.getEnumConstants()[0] : SAMPLES.get(raw);
  }

  /** The values of all methods of an exception that return something of it. */
  private static Map<String, Object> data(GpuCheckpointException of) throws Exception {
    Map<String, Object> data = new TreeMap<>();
    for (Method each : of.getClass().getMethods()) {
      if (GpuCheckpointException.class.isAssignableFrom(each.getDeclaringClass())
          && each.getParameterCount() == 0
          && !Modifier.isStatic(each.getModifiers())) {
        each.setAccessible(true);
        data.put(each.getName(), value(each, of));
      }
    }
    return data;
  }

  /** A process cannot be sent to another machine, and the exception says so. */
  private static Object value(Method method, GpuCheckpointException of) throws Exception {
    try {
      return String.valueOf(method.invoke(of));
    } catch (InvocationTargetException e) {
      return e.getCause().getClass();
    }
  }

  private static GpuCheckpointException copied(GpuCheckpointException original) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(original);
    }
    try (ObjectInputStream in =
        new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      return (GpuCheckpointException) in.readObject();
    }
  }
}
