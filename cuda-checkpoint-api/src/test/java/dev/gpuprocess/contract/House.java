package dev.gpuprocess.contract;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.tngtech.archunit.core.domain.JavaAccess;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaCodeUnitAccess;
import com.tngtech.archunit.core.domain.JavaMethodCall;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.library.dependencies.SliceAssignment;
import com.tngtech.archunit.library.dependencies.SliceIdentifier;
import com.tngtech.archunit.library.dependencies.SlicesRuleDefinition;
import dev.gpuprocess.internal.linux.MappedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Deadline;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The packages of one module, for the rules that hold in every module.
 *
 * @param classes as they were compiled
 * @param sources where their sources are
 */
public record House(JavaClasses classes, Path sources) {

  private static final Pattern EXPORTS =
      Pattern.compile("^ *exports ([\\w.]+(?:\\s+to\\s+[\\w.,\\s]+)?);", Pattern.MULTILINE);
  private static final Pattern COMMENT =
      Pattern.compile("^\\s*(//.*|/\\*(?s:.*?)\\*/)$", Pattern.MULTILINE);
  private static final Pattern PATH_OF_PROC = Pattern.compile("(Path\\.of|Stream|File)\\(\"/proc");
  private static final Pattern PUBLIC =
      Pattern.compile(
          "^ *public (?:static |final |abstract |sealed |non-sealed )*(?:class|record|enum|interface|@interface) ",
          Pattern.MULTILINE);

  /** The methods of {@link Files} that only look at a file. */
  private static final Set<String> LOOKS_ONLY =
      Set.of(
          "exists",
          "getAttribute",
          "getFileStore",
          "getPosixFilePermissions",
          "isDirectory",
          "isExecutable",
          "isReadable",
          "isRegularFile",
          "isSameFile",
          "isSymbolicLink",
          "isWritable",
          "notExists",
          "readAttributes",
          "readSymbolicLink",
          "size");

  private static final Set<String> OPENERS =
      Set.of(
          "java.io.FileInputStream",
          "java.io.FileOutputStream",
          "java.io.FileReader",
          "java.io.FileWriter",
          "java.io.RandomAccessFile",
          "java.nio.channels.AsynchronousFileChannel",
          "java.nio.channels.FileChannel");

  /** Classes of this library that open what they are given by a path. */
  private static final Set<String> OWN_OPENERS =
      Set.of("BlockFile", "Descriptors", "DurableFiles", "FileHold", "LockedFile", "SmallFile");

  /** The module that a class is in. */
  public static House of(String module, Class<?> member) {
    return new House(
        new ClassFileImporter()
            .importUrl(member.getProtectionDomain().getCodeSource().getLocation()),
        Path.of(System.getProperty("gpuprocess.root"), module, "src/main/java"));
  }

  /** What module-info.java exports, in order. */
  public List<String> exports() throws IOException {
    return EXPORTS
        .matcher(Files.readString(sources.resolve("module-info.java")))
        .results()
        .map(found -> found.group(1).replaceAll("\\s+", " "))
        .sorted()
        .toList();
  }

  /**
   * Fails where a caller cannot call a public method of a public type by reflection, because a type
   * that is not public declares it.
   */
  public void requireCallableMethods() throws IOException {
    Set<String> exported =
        exports().stream().filter(each -> !each.contains(" to ")).collect(Collectors.toSet());
    List<String> hidden =
        classes.stream()
            .filter(each -> exported.contains(each.getPackageName()))
            .map(JavaClass::reflect)
            .filter(House::isPublic)
            .flatMap(each -> Stream.of(each.getMethods()))
            .filter(each -> !isPublic(each.getDeclaringClass()))
            .map(Method::toString)
            .distinct()
            .toList();
    assertEquals(List.of(), hidden);
  }

  private static boolean isPublic(Class<?> type) {
    return Modifier.isPublic(type.getModifiers())
        && (type.getEnclosingClass() == null || isPublic(type.getEnclosingClass()));
  }

  /** Fails where packages depend on each other in a circle. */
  public void requireNoCycles() {
    SlicesRuleDefinition.slices()
        .assignedFrom(
            new SliceAssignment() {
              @Override
              public SliceIdentifier getIdentifierOf(JavaClass javaClass) {
                return SliceIdentifier.of(javaClass.getPackageName());
              }

              @Override
              public String getDescription() {
                return "packages";
              }
            })
        .should()
        .beFreeOfCycles()
        .check(classes);
  }

  /**
   * Fails where a directory is listed by code that does not expect this to fail halfway, as it does
   * when the server of a network file system is lost: what the JDK throws then is no IOException.
   */
  public void requireListingsMayFail() {
    List<String> careless =
        classes.stream()
            .flatMap(each -> each.getMethodCallsFromSelf().stream())
            .filter(call -> call.getTargetOwner().isEquivalentTo(Files.class))
            .filter(House::listsCarelessly)
            .map(JavaMethodCall::getDescription)
            .toList();
    assertEquals(List.of(), careless, "DurableFiles.list throws an IOException");
  }

  private static boolean listsCarelessly(JavaMethodCall call) {
    return switch (call.getName()) {
      case "list", "walk", "find" -> true;
      case "newDirectoryStream" ->
          call.getOrigin().getTryCatchBlocks().stream()
              .flatMap(block -> block.getCaughtThrowables().stream())
              .noneMatch(caught -> caught.isEquivalentTo(DirectoryIteratorException.class));
      default -> false;
    };
  }

  /** Fails where a thread waits without {@code internal.time}, which has the waits. */
  public void requireNoOwnWaits() {
    List<String> waits =
        classes.stream()
            .filter(each -> !each.getPackageName().equals(Deadline.class.getPackageName()))
            .flatMap(each -> each.getMethodCallsFromSelf().stream())
            .filter(House::waits)
            .map(JavaMethodCall::getDescription)
            .toList();
    assertEquals(List.of(), waits, "Deadline, Polling and Uninterrupted wait");
  }

  private static boolean waits(JavaMethodCall call) {
    JavaClass owner = call.getTargetOwner();
    return owner.isEquivalentTo(LockSupport.class)
        || (call.getName().equals("sleep")
            && (owner.isEquivalentTo(Thread.class) || owner.isEquivalentTo(TimeUnit.class)));
  }

  /**
   * Fails where a program is started by the JDK or by Commons Exec. The library starts what it
   * needs with {@code ChildStart}; a program that is run and read is a {@code ProgramRun}.
   *
   * @param allowed the classes that start programs which live on, and the one that runs the others
   */
  public void requireNoOwnPrograms(String... allowed) {
    Set<String> starters =
        classes.stream()
            .filter(each -> each.getAccessesFromSelf().stream().anyMatch(House::startsProgram))
            .map(House::outermost)
            .collect(Collectors.toCollection(TreeSet::new));
    assertEquals(new TreeSet<>(Set.of(allowed)), starters, "ProgramRun runs a program");
  }

  private static boolean startsProgram(JavaAccess<?> access) {
    JavaClass owner = access.getTargetOwner();
    return owner.isEquivalentTo(ProcessBuilder.class)
        || owner.getPackageName().startsWith("org.apache.commons.exec")
        || (owner.isEquivalentTo(Runtime.class) && access.getName().equals("exec"));
  }

  /** Fails where a path below {@code /proc} is made outside of {@code internal.proc}. */
  public void requirePathsOfProcFromProcFs() throws IOException {
    List<Path> found = new ArrayList<>();
    for (Path file : files()) {
      if (!packageOf(file).equals(ProcFs.class.getPackageName())
          && PATH_OF_PROC.matcher(Files.readString(file)).find()) {
        found.add(sources.relativize(file));
      }
    }
    assertEquals(List.of(), found, "ProcFs has the paths below /proc");
  }

  /**
   * Fails where another class than {@link MappedFile} makes a path of a mapped file: a process
   * exchanges its mappings at any moment, so the file is held without right to write and examined
   * before anything else is done with it.
   */
  public void requireMappedFilesFromMappedFile() throws IOException {
    List<String> found = new ArrayList<>();
    for (Path file : files()) {
      String name = String.valueOf(file.getFileName());
      if (!name.equals(MappedFile.class.getSimpleName() + ".java")
          && COMMENT.matcher(Files.readString(file)).replaceAll("").contains("map_files")) {
        found.add(name);
      }
    }
    assertEquals(List.of(), found, "MappedFile has the paths of mapped files");
  }

  /**
   * Fails where code that knows paths of jobs opens, creates, removes or lists files by another way
   * than {@link UntrustedPaths}: root would do for a job what the job itself may not do.
   *
   * @param packages the packages that know paths of jobs
   * @param allowed methods that open files at paths that no job chose, such as {@code
   *     Class.method}, by the reason
   */
  public void requireUntrustedPaths(List<String> packages, Map<String, List<String>> allowed) {
    Map<String, List<String>> found =
        classes.stream()
            .filter(each -> packages.contains(each.getPackageName()))
            .flatMap(each -> each.getCodeUnitCallsFromSelf().stream())
            .filter(House::opensByPath)
            .collect(
                Collectors.groupingBy(
                    call -> outermost(call.getOriginOwner()) + "." + method(call),
                    TreeMap::new,
                    Collectors.mapping(JavaAccess::getDescription, Collectors.toList())));
    found.keySet().removeAll(allowed.values().stream().flatMap(List::stream).toList());
    assertEquals(Map.of(), found, "UntrustedPaths opens what a job names");
  }

  private static String outermost(JavaClass javaClass) {
    return javaClass.getEnclosingClass().map(House::outermost).orElse(javaClass.getSimpleName());
  }

  /** The method that a lambda is in. */
  private static String method(JavaCodeUnitAccess<?> call) {
    String name = call.getOrigin().getName();
    return name.startsWith("lambda$") ? name.split("\\$")[1] : name;
  }

  private static boolean opensByPath(JavaCodeUnitAccess<?> call) {
    JavaClass owner = call.getTargetOwner();
    String name = call.getName();
    if (owner.isEquivalentTo(Files.class)) {
      return !LOOKS_ONLY.contains(name);
    }
    if (OPENERS.contains(owner.getName())) {
      return name.equals("<init>") || name.equals("open");
    }
    return owner.getPackageName().equals(UntrustedPaths.class.getPackageName())
        && OWN_OPENERS.contains(owner.getSimpleName())
        && !name.equals("close");
  }

  /** How large it is, in one line. */
  public String figure() throws IOException {
    List<String> exported = exports().stream().filter(each -> !each.contains(" to ")).toList();
    List<Path> files = files();
    long types = 0;
    for (Path file : files) {
      if (exported.contains(packageOf(file))) {
        types += PUBLIC.matcher(Files.readString(file)).results().count();
      }
    }
    List<Long> lines = files.stream().map(House::lines).sorted().toList();
    return "%s: %s public types in %s exported packages, %s lines of code, %s lines without imports in %s files, %s in the median and %s in the largest"
        .formatted(
            sources.getName(sources.getNameCount() - 4),
            types,
            exported.size(),
            code(files),
            lines.stream().mapToLong(Long::longValue).sum(),
            lines.size(),
            lines.get(lines.size() / 2),
            lines.get(lines.size() - 1));
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> all = Files.walk(sources)) {
      return all.filter(file -> file.toString().endsWith(".java"))
          .filter(file -> !file.endsWith("module-info.java"))
          .filter(file -> !file.endsWith("package-info.java"))
          .toList();
    }
  }

  private String packageOf(Path file) {
    return sources.relativize(file.getParent()).toString().replace('/', '.');
  }

  /** Without package and import lines, comments and blank lines. */
  private static long code(List<Path> files) throws IOException {
    long code = 0;
    for (Path file : files) {
      code +=
          COMMENT
              .matcher(Files.readString(file))
              .replaceAll("")
              .lines()
              .filter(line -> !line.isBlank() && !line.matches("(import|package) .*"))
              .count();
    }
    return code;
  }

  private static long lines(Path file) {
    try (Stream<String> lines = Files.lines(file)) {
      return lines.filter(line -> !line.startsWith("import ")).count();
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }
}
