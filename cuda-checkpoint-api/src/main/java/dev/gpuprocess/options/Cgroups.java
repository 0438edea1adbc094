package dev.gpuprocess.options;

import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * How the cgroups of a tree are handled. Has no effect on a tree that is in the same cgroup as
 * CRIU. Immutable.
 *
 * @param mode what is done (CRIU {@code manage-cgroups})
 * @param roots where the tree's cgroups are put, by controller; the empty name stands for all
 *     others (CRIU {@code cgroup-root})
 * @param properties which properties are dumped, in CRIU's own notation; null for those that CRIU
 *     knows (CRIU {@code cgroup-props})
 * @param controllers the only controllers to dump; empty for all (CRIU {@code
 *     cgroup-dump-controller})
 * @param yard a directory where the cgroup file systems are already mounted; null to have CRIU
 *     mount them (CRIU {@code cgroup-yard})
 */
public record Cgroups(
    CgroupMode mode,
    Map<String, String> roots,
    @Nullable String properties,
    List<String> controllers,
    @Nullable Path yard) {

  /**
   * Copies the collections.
   *
   * @throws IllegalArgumentException when the mode is {@link CgroupMode#IGNORE} and anything else
   *     is set
   */
  public Cgroups {
    roots = Collections.unmodifiableMap(new TreeMap<>(roots));
    controllers = List.copyOf(controllers);
    boolean described =
        !roots.isEmpty() || properties != null || !controllers.isEmpty() || yard != null;
    if (mode == CgroupMode.IGNORE && described) {
      throw new IllegalArgumentException(
          "cgroups that are ignored have no roots, properties, controllers or yard");
    }
  }

  /**
   * Sets only the mode.
   *
   * @param mode what is done
   * @return the handling
   */
  public static Cgroups of(CgroupMode mode) {
    return new Cgroups(mode, Map.of(), null, List.of(), null);
  }

  /**
   * The same, below another cgroup.
   *
   * @param controller such as {@code cpu}; empty for all that have no root of their own
   * @param path such as {@code /processes/42}
   * @return a copy
   */
  public Cgroups root(String controller, String path) {
    Map<String, String> all = new TreeMap<>(roots);
    all.put(controller, path);
    return new Cgroups(mode, all, properties, controllers, yard);
  }

  /**
   * The same, with other properties.
   *
   * @param notation in CRIU's own notation
   * @return a copy
   */
  public Cgroups properties(String notation) {
    return new Cgroups(mode, roots, notation, controllers, yard);
  }

  /**
   * The same, for some controllers only.
   *
   * @param only such as {@code cpu}
   * @return a copy
   */
  public Cgroups controllers(String... only) {
    return new Cgroups(mode, roots, properties, List.of(only), yard);
  }

  /**
   * The same, with cgroup file systems that are mounted already.
   *
   * @param directory where
   * @return a copy
   */
  public Cgroups yard(Path directory) {
    return new Cgroups(mode, roots, properties, controllers, directory);
  }
}
