package dev.gpuprocess.options;

import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * CRIU's own switches, for process trees that need more than the defaults: values of the table
 * {@link CriuSwitch}. Immutable.
 *
 * <p>The same options may be given to a dump and to a restore: each uses those that concern it.
 * What the dump was given is in the image's manifest, and a restore need not repeat it. Options of
 * a restore override those of its image, and both override the administrator's file ({@code
 * /etc/gpuprocess/criu.conf}).
 */
public final class CriuOptions {

  private static final CriuOptions DEFAULTS = new CriuOptions(Map.of());

  /** CRIU asks for properties of cgroups only if it handles cgroups. */
  private static final List<CriuSwitch<?>> OF_CGROUPS =
      List.of(
          CriuSwitch.CGROUP_ROOT,
          CriuSwitch.CGROUP_PROPS,
          CriuSwitch.CGROUP_DUMP_CONTROLLER,
          CriuSwitch.CGROUP_YARD);

  private final Map<CriuSwitch<?>, Object> values;

  private CriuOptions(Map<CriuSwitch<?>, Object> values) {
    this.values = values;
  }

  /** {@return the defaults, which suit most processes} */
  public static CriuOptions ofDefaults() {
    return DEFAULTS;
  }

  /** {@return a builder with the defaults} */
  public static Builder builder() {
    return new Builder(Map.of());
  }

  /** {@return a builder with these options} */
  public Builder toBuilder() {
    return new Builder(values);
  }

  /** {@return whether a switch is on} */
  public boolean has(CriuSwitch<Boolean> flag) {
    return get(flag);
  }

  /**
   * {@return the value of a switch, or its default}
   *
   * @throws java.util.NoSuchElementException if it was not set and has no default
   */
  public <T> T get(CriuSwitch<T> option) {
    return find(option).orElseThrow();
  }

  /** {@return the value of a switch, or its default; empty if it was not set and has none} */
  @SuppressWarnings("unchecked") // put there by a setter of the same type
  public <T> Optional<T> find(CriuSwitch<T> option) {
    T value = (T) values.get(option);
    return Optional.ofNullable(value == null ? option.type().none() : value);
  }

  /** {@return whether a switch was set, to its default too} */
  public boolean isSet(CriuSwitch<?> option) {
    return values.containsKey(option);
  }

  /**
   * {@return what was set, as {@link Builder#set(String)} reads it, in the order of the table}
   *
   * @param which of the switches to return
   */
  public List<String> settings(Predicate<CriuSwitch<?>> which) {
    return CriuSwitch.all().stream()
        .filter(which)
        .flatMap(each -> settings(each).stream())
        .toList();
  }

  @SuppressWarnings("unchecked") // as in find
  private <T> List<String> settings(CriuSwitch<T> option) {
    T value = (T) values.get(option);
    return value == null ? List.of() : option.type().settings(option.name(), value);
  }

  /**
   * Returns these options, completed by others: by those whose switch is not set here, and which do
   * not exclude what is set here.
   *
   * @param weaker the others
   * @return both
   */
  public CriuOptions over(CriuOptions weaker) {
    Map<CriuSwitch<?>, Object> all = new LinkedHashMap<>(values);
    weaker.values.forEach(
        (option, value) -> {
          if (!all.containsKey(option)) {
            all.put(option, value);
            if (conflict(all) != null) {
              all.remove(option);
            }
          }
        });
    return new CriuOptions(all);
  }

  /** Returns which of the options exclude each other; null for none. */
  private static @Nullable String conflict(Map<CriuSwitch<?>, Object> all) {
    CriuOptions set = new CriuOptions(all);
    if (set.has(CriuSwitch.TCP_ESTABLISHED) && set.has(CriuSwitch.TCP_CLOSE)) {
      return "connections are kept or closed: set tcp-established or tcp-close";
    }
    Optional<CgroupMode> cgroups = set.find(CriuSwitch.MANAGE_CGROUPS);
    boolean namesCgroups = OF_CGROUPS.stream().anyMatch(set::isSet);
    if (set.has(CriuSwitch.UNPRIVILEGED) && (cgroups.isPresent() || namesCgroups)) {
      return "cgroups cannot be handled without the rights of root: set unprivileged or options of"
          + " cgroups";
    }
    if (cgroups.filter(CgroupMode.IGNORE::equals).isPresent() && namesCgroups) {
      return "cgroups that are ignored have no roots, properties, controllers or yard";
    }
    if (set.has(CriuSwitch.EMPTY_NET_NS) && set.get(CriuSwitch.JOIN_NS).containsKey("net")) {
      return "a tree has one network namespace: set empty-ns or join-ns";
    }
    return null;
  }

  /** {@return what was set} */
  @Override
  public String toString() {
    return settings(each -> true).toString();
  }

  /**
   * Builds {@link CriuOptions}: the usual switches have methods, and {@link #set(String)} sets any.
   * Not for use by several threads.
   */
  public static final class Builder {

    private final Map<CriuSwitch<?>, Object> values;

    private Builder(Map<CriuSwitch<?>, Object> values) {
      this.values = new LinkedHashMap<>(values);
    }

    /**
     * Sets a switch as on a command line: {@code tcp-close}, {@code ghost-limit=64M}, {@code
     * external=unix[4711]}. A flag is switched off by {@code tcp-close=false}; a list gets another
     * element.
     *
     * @param setting the name of a {@link CriuSwitch}, and its value
     * @return this builder
     * @throws IllegalArgumentException if there is no switch of that name, or it has no such value;
     *     the message names similar switches, or the possible values
     */
    public Builder set(String setting) {
      int end = setting.indexOf('=');
      String name = end < 0 ? setting : setting.substring(0, end);
      CriuSwitch<?> option = CriuSwitch.named(name);
      if (end < 0 && !option.form().isEmpty()) {
        throw new IllegalArgumentException(
            "CRIU's option %s needs a value: %s=%s".formatted(name, name, option.form()));
      }
      try {
        return parse(option, end < 0 ? "" : setting.substring(end + 1));
      } catch (IllegalArgumentException e) {
        throw new IllegalArgumentException(
            "CRIU's option %s %s".formatted(name, e.getMessage()), e);
      }
    }

    private <T> Builder parse(CriuSwitch<T> option, String text) {
      return set(option, option.type().parse().apply(value(option), text));
    }

    private <T> Builder set(CriuSwitch<T> option, T value) {
      values.put(option, option.checked(value));
      return this;
    }

    @SuppressWarnings("unchecked") // put there by a setter of the same type
    private <T> @Nullable T value(CriuSwitch<T> option) {
      return (T) values.get(option);
    }

    /** Sets {@link CriuSwitch#TCP_ESTABLISHED}. */
    public Builder tcpEstablished(boolean value) {
      return set(CriuSwitch.TCP_ESTABLISHED, value);
    }

    /** Sets {@link CriuSwitch#TCP_CLOSE}. */
    public Builder tcpClose(boolean value) {
      return set(CriuSwitch.TCP_CLOSE, value);
    }

    /** Sets {@link CriuSwitch#SKIP_IN_FLIGHT}. */
    public Builder tcpSkipInFlight(boolean value) {
      return set(CriuSwitch.SKIP_IN_FLIGHT, value);
    }

    /** Sets {@link CriuSwitch#NETWORK_LOCK}. */
    public Builder networkLock(NetworkLock value) {
      return set(CriuSwitch.NETWORK_LOCK, value);
    }

    /** Sets {@link CriuSwitch#EXT_UNIX_SK}. */
    public Builder externalUnixSockets(boolean value) {
      return set(CriuSwitch.EXT_UNIX_SK, value);
    }

    /** Sets {@link CriuSwitch#FILE_LOCKS}. */
    public Builder fileLocks(boolean value) {
      return set(CriuSwitch.FILE_LOCKS, value);
    }

    /** Sets {@link CriuSwitch#LINK_REMAP}. */
    public Builder linkRemap(boolean value) {
      return set(CriuSwitch.LINK_REMAP, value);
    }

    /** Sets {@link CriuSwitch#GHOST_LIMIT}. */
    public Builder ghostLimit(long value) {
      return set(CriuSwitch.GHOST_LIMIT, value);
    }

    /** Sets {@link CriuSwitch#FORCE_IRMAP}. */
    public Builder forceIrmap(boolean value) {
      return set(CriuSwitch.FORCE_IRMAP, value);
    }

    /** Adds to {@link CriuSwitch#EXTERNAL}. */
    public Builder external(External... more) {
      return set(CriuSwitch.EXTERNAL, SwitchType.plus(value(CriuSwitch.EXTERNAL), List.of(more)));
    }

    /** Sets {@link CriuSwitch#MANAGE_CGROUPS}. */
    public Builder cgroups(CgroupMode value) {
      return set(CriuSwitch.MANAGE_CGROUPS, value);
    }

    /** Sets {@link CriuSwitch#CPU_CAP}. */
    public Builder cpuCheck(CpuCheck value) {
      return set(CriuSwitch.CPU_CAP, value);
    }

    /** Sets {@link CriuSwitch#TIMEOUT}. */
    public Builder freezeTimeout(Duration value) {
      return set(CriuSwitch.TIMEOUT, value);
    }

    /** Sets {@link CriuSwitch#UNPRIVILEGED}. */
    public Builder unprivileged(boolean value) {
      return set(CriuSwitch.UNPRIVILEGED, value);
    }

    /** Sets {@link CriuSwitch#LOG_LEVEL}. */
    public Builder logLevel(int value) {
      return set(CriuSwitch.LOG_LEVEL, value);
    }

    /** Sets {@link CriuSwitch#SHELL_JOB}. */
    public Builder shellJob(boolean value) {
      return set(CriuSwitch.SHELL_JOB, value);
    }

    /** Sets {@link CriuSwitch#ROOT}. */
    public Builder root(Path value) {
      return set(CriuSwitch.ROOT, value);
    }

    /** Sets {@link CriuSwitch#MNTNS_COMPAT_MODE}. */
    public Builder mountCompatibility(boolean value) {
      return set(CriuSwitch.MNTNS_COMPAT_MODE, value);
    }

    /**
     * Replaces a resource that the tree had by an open descriptor of this JVM ({@link
     * CriuSwitch#INHERIT_FD}). The descriptor stays open here; the tree gets a copy.
     *
     * @param resource what is replaced: what {@code /proc/PID/fd/N} pointed to at the dump, such as
     *     {@code pipe:[4711]} or {@code socket:[4712]}; the path of a file without its first slash;
     *     the {@linkplain External#text() text} of an external file or terminal; the name of an
     *     external namespace
     * @param descriptor its number in this JVM
     * @throws IllegalArgumentException when the resource is empty or the number negative
     */
    public Builder inherit(String resource, int descriptor) {
      if (descriptor < 0) {
        throw new IllegalArgumentException("a descriptor is not negative: " + descriptor);
      }
      remove(CriuSwitch.INHERIT_FILE, resource);
      return put(CriuSwitch.INHERIT_FD, resource, descriptor);
    }

    /**
     * Replaces a resource that the tree had by a file, opened for reading and writing just before
     * the restore ({@link CriuSwitch#INHERIT_FILE}).
     *
     * @param resource as in {@link #inherit(String, int)}
     * @param file an existing file, pipe or device
     * @throws IllegalArgumentException when the resource is empty
     */
    public Builder inherit(String resource, Path file) {
      remove(CriuSwitch.INHERIT_FD, resource);
      return put(CriuSwitch.INHERIT_FILE, resource, file);
    }

    private <V> Builder put(CriuSwitch<Map<String, V>> option, String key, V value) {
      return set(option, SwitchType.plus(value(option), key, value));
    }

    private <V> void remove(CriuSwitch<Map<String, V>> option, String key) {
      Map<String, V> before = value(option);
      if (before != null) {
        values.put(option, SwitchType.minus(before, key));
      }
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @throws IllegalStateException when two of them exclude each other; the message names both
     */
    public CriuOptions build() {
      Map<CriuSwitch<?>, Object> all = new LinkedHashMap<>(values);
      String conflict = conflict(all);
      if (conflict != null) {
        throw new IllegalStateException(conflict);
      }
      if (OF_CGROUPS.stream().anyMatch(all::containsKey)) {
        all.putIfAbsent(CriuSwitch.MANAGE_CGROUPS, CgroupMode.SOFT);
      }
      return new CriuOptions(all);
    }
  }
}
