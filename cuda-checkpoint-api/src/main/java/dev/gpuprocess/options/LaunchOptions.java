package dev.gpuprocess.options;

import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * What {@link dev.gpuprocess.GpuCheckpoints#launch} starts, and how. Whatever is set here, the
 * process leads a session of its own without a terminal, has no signal blocked or ignored, and gets
 * the descriptors 0, 1 and 2 and no other. Immutable.
 */
public final class LaunchOptions {

  private final Builder set;

  private LaunchOptions(Builder set) {
    this.set = set;
  }

  /**
   * Starts from a command.
   *
   * @param command a program; without a slash in it, it is looked for in the {@code PATH} that the
   *     process gets, and a relative one is looked for in the {@linkplain Builder#directory
   *     directory} of the process
   * @param arguments its arguments. Text goes to the program as the locale of this JVM encodes it,
   *     and as UTF-8 where the locale lacks a character
   * @return a builder
   * @throws IllegalArgumentException when the command is empty, or one of them has a NUL character
   *     in it
   */
  public static Builder builder(String command, String... arguments) {
    if (command.isEmpty()) {
      throw new IllegalArgumentException("the command is empty: name a program");
    }
    return new Builder(
        Stream.concat(Stream.of(command), Stream.of(arguments))
            .map(LaunchOptions::withoutNul)
            .toList());
  }

  /**
   * Starts from a command, such as {@link #command()} returns it.
   *
   * @param command a program and its arguments, as for {@link #builder(String, String...)}
   * @return a builder
   * @throws IllegalArgumentException as {@link #builder(String, String...)}, and when there is no
   *     program
   */
  public static Builder builder(List<String> command) {
    if (command.isEmpty()) {
      throw new IllegalArgumentException("the command is empty: name a program");
    }
    return builder(command.get(0), command.subList(1, command.size()).toArray(String[]::new));
  }

  /**
   * Starts from these options.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  private static String withoutNul(String text) {
    if (text.indexOf('\0') >= 0) {
      throw new IllegalArgumentException("a program cannot be given a NUL character: " + text);
    }
    return text;
  }

  /** {@return the program and its arguments} */
  public List<String> command() {
    return set.command;
  }

  /** {@return the variables that are set, by name} */
  public Map<String, String> environment() {
    return set.environment;
  }

  /** {@return the variables of this JVM that the process does not get} */
  public Set<String> removedEnvironment() {
    return set.removed;
  }

  /** {@return whether the process gets the variables of this JVM} */
  public boolean inheritEnvironment() {
    return set.inheritEnvironment;
  }

  /** {@return where the process runs; empty for the working directory of this JVM} */
  public Optional<Path> directory() {
    return Optional.ofNullable(set.directory);
  }

  /** {@return the file that the process reads; empty for none} */
  public Optional<Path> input() {
    return Optional.ofNullable(set.input);
  }

  /** {@return where standard output goes} */
  public Redirect output() {
    return set.output;
  }

  /** {@return where standard error goes; empty where standard output does} */
  public Optional<Redirect> error() {
    return Optional.ofNullable(set.error);
  }

  /** {@return whether the process lives on when this JVM ends} */
  public boolean survivesExit() {
    return set.survivesExit;
  }

  /** {@return whether forked children lose what they inherit of the GPU} */
  public boolean dropInheritedGpu() {
    return set.dropInheritedGpu;
  }

  /** {@return whether the process has pids of its own} */
  public boolean isolated() {
    return set.isolated;
  }

  @Override
  public String toString() {
    return String.join(" ", set.command);
  }

  /** Builds {@link LaunchOptions}; each method names its default. Not for use by threads. */
  public static final class Builder extends OptionsBuilder<Builder> {

    private final List<String> command;
    private Map<String, String> environment = Map.of();
    private Set<String> removed = Set.of();
    private boolean inheritEnvironment = true;
    private @Nullable Path directory;
    private @Nullable Path input;
    private Redirect output = Redirect.DISCARD;
    private @Nullable Redirect error;
    private boolean survivesExit;
    private boolean dropInheritedGpu = true;
    private boolean isolated;

    private Builder(List<String> command) {
      this.command = command;
    }

    private static String name(String name) {
      if (name.isEmpty() || name.indexOf('=') >= 0) {
        throw new IllegalArgumentException("no variable can be called '" + name + "'");
      }
      return withoutNul(name);
    }

    /**
     * Sets a variable of the environment; it replaces an inherited one.
     *
     * @param name any name without {@code =}; it need not be one that a shell accepts
     * @param value the value
     * @return this builder
     * @throws IllegalArgumentException when the name is empty or has a {@code =} in it, or there is
     *     a NUL character
     */
    public Builder environment(String name, String value) {
      Map<String, String> all = new LinkedHashMap<>(environment);
      all.put(name(name), withoutNul(value));
      this.environment = Map.copyOf(all);
      return this;
    }

    /**
     * Sets several variables.
     *
     * @param variables as for {@link #environment(String, String)}
     * @return this builder
     * @throws IllegalArgumentException as {@link #environment(String, String)}
     */
    public Builder environment(Map<String, String> variables) {
      variables.forEach(this::environment);
      return this;
    }

    /**
     * Removes variables that would be inherited; one that is set stays.
     *
     * @param names the variables; none by default
     * @return this builder
     * @throws IllegalArgumentException as {@link #environment(String, String)}
     */
    public Builder removeEnvironment(String... names) {
      Set<String> all = new LinkedHashSet<>(removed);
      Stream.of(names).map(Builder::name).forEach(all::add);
      this.removed = Set.copyOf(all);
      return this;
    }

    /**
     * Whether the process gets the environment of this JVM, byte for byte.
     *
     * @param inherit the new value; true by default
     * @return this builder
     */
    public Builder inheritEnvironment(boolean inherit) {
      this.inheritEnvironment = inherit;
      return this;
    }

    /**
     * Where the process runs.
     *
     * @param directory by default the working directory of this JVM
     * @return this builder
     */
    public Builder directory(Path directory) {
      this.directory = directory.toAbsolutePath();
      return this;
    }

    /**
     * What the process reads as standard input.
     *
     * @param file a regular file or a character device; {@code /dev/null} by default
     * @return this builder
     */
    public Builder input(Path file) {
      this.input = file.toAbsolutePath();
      return this;
    }

    /**
     * Where standard output goes.
     *
     * <p>A file is a regular file or a character device; it is created with mode 0666 less the
     * umask of this JVM when needed, and a relative path is one in the working directory of this
     * JVM. {@link Redirect#PIPE} is a pipe to this JVM, which it reads as {@link
     * dev.gpuprocess.LaunchedProcess#output()}. Such a process can be suspended and resumed, but
     * not dumped: after a restore no process would hold the other end of the pipe, so a dump is
     * refused, with a file as the cure.
     *
     * @param output {@link Redirect#DISCARD}, the default, {@link Redirect#PIPE}, {@link
     *     Redirect#to} or {@link Redirect#appendTo}
     * @return this builder
     * @throws IllegalArgumentException when it is {@link Redirect#INHERIT} or {@link Redirect#from}
     */
    public Builder output(Redirect output) {
      this.output = written(output);
      return this;
    }

    /**
     * Where standard error goes.
     *
     * @param error as for {@link #output}; by default it goes where standard output goes, through
     *     the same open file
     * @return this builder
     * @throws IllegalArgumentException as {@link #output}
     */
    public Builder error(Redirect error) {
      this.error = written(error);
      return this;
    }

    private static Redirect written(Redirect output) {
      return switch (output.type()) {
        case PIPE, WRITE, APPEND -> output;
        case INHERIT, READ ->
            throw new IllegalArgumentException(
                "output cannot go to '%s': name a file, PIPE or DISCARD".formatted(output));
      };
    }

    /**
     * Whether the process lives on when this JVM ends. Otherwise it is ended then, however the JVM
     * ends, also when it is killed: a small process of its own watches over it, and sends SIGKILL
     * to all of the job. A process that was dumped is on disk and is not ended; once restored by
     * this JVM it is watched over again. The small process stays with one that survives, and
     * records how it ends ({@link dev.gpuprocess.GpuCheckpoints#exit}).
     *
     * @param survives the new value; false by default
     * @return this builder
     */
    public Builder survivesExit(boolean survives) {
      this.survivesExit = survives;
      return this;
    }

    /**
     * Whether children that are made by {@code fork} lose what they inherit of the GPU. A process
     * that has used CUDA leaves its children the driver's device files, open and mapped: CUDA is
     * unusable there, the driver does not know of it, and CRIU cannot dump such a tree. PyTorch's
     * data loaders are such children. With this a small library is preloaded into the process
     * ({@code LD_PRELOAD}, behind what is there already) whose fork handler replaces in each child
     * each such descriptor by one of {@code /dev/null} and each such mapping by memory that cannot
     * be accessed. It needs glibc on x86_64; programs that are linked statically, and those that
     * run as another user than this JVM's, are not covered.
     *
     * @param drop the new value; true by default
     * @return this builder
     */
    public Builder dropInheritedGpu(boolean drop) {
      this.dropInheritedGpu = drop;
      return this;
    }

    /**
     * Whether the process gets a pid namespace and a mount namespace of its own, with its own
     * {@code /proc} and {@code /dev/shm}, in which its first process has pid 1. Its pids are free
     * wherever it is restored, so one image can be restored many times at once, beside the original
     * too. Needs root.
     *
     * <p>The command is that first process. All of the process ends with it; children whose parents
     * have ended become its children, and are its to reap; and the kernel gives it no signal that
     * it has no handler for, except SIGKILL and SIGSTOP.
     *
     * @param isolated the new value; false by default
     * @return this builder
     */
    public Builder isolated(boolean isolated) {
      this.isolated = isolated;
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     */
    public LaunchOptions build() {
      return new LaunchOptions(copy());
    }
  }
}
