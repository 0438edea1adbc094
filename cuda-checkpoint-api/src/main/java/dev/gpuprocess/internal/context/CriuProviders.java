package dev.gpuprocess.internal.context;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.spi.CriuDriver;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the CRIU drivers by the class loader of this library, and by the context class loader of
 * the calling thread. The threads of the common pool have the application's class loader as their
 * context, which has no class of a plugin or of a jar in a jar.
 */
public final class CriuProviders {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final List<Class<? extends CriuDriver>> types = new ArrayList<>();
  private @Nullable CriuDriver first;
  private @Nullable ServiceConfigurationError error;

  private CriuProviders() {
    Set<@Nullable ClassLoader> loaders = new LinkedHashSet<>();
    loaders.add(CriuProviders.class.getClassLoader());
    loaders.add(Thread.currentThread().getContextClassLoader());
    for (ClassLoader loader : loaders) {
      try {
        search(ServiceLoader.load(CriuDriver.class, loader));
      } catch (ServiceConfigurationError e) {
        LOG.debug("{} finds a CRIU driver that cannot be loaded", loader, e);
        error = error == null ? e : error;
      }
    }
  }

  private void search(ServiceLoader<CriuDriver> found) {
    found.stream().map(ServiceLoader.Provider::type).forEach(types::add);
    if (first == null) {
      first = found.findFirst().orElse(null);
    }
  }

  /**
   * Returns the first driver that can be loaded.
   *
   * @throws MachineUnfitException with reason NO_CRIU when there is none
   */
  public static CriuDriver first() {
    CriuProviders found = new CriuProviders();
    if (found.first != null) {
      return found.first;
    }
    Failure failure = Failure.of("find CRIU", 0);
    ServiceConfigurationError error = found.error;
    if (error != null) {
      throw new MachineUnfitException(
          MachineUnfitException.Reason.NO_CRIU,
          "the CriuDriver on the class path or module path cannot be loaded: " + error.getMessage(),
          failure,
          error);
    }
    throw new MachineUnfitException(
        MachineUnfitException.Reason.NO_CRIU,
        "no CriuDriver is on the class path or module path: add the dependency dev.gpuprocess:criu-driver",
        failure);
  }

  /** Returns the classes of all drivers; the search opens every jar. */
  static List<Class<? extends CriuDriver>> types() {
    return new CriuProviders().types;
  }
}
