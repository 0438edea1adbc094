package dev.gpuprocess.internal.linux;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Stranger;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.IoFunction;
import dev.gpuprocess.internal.time.IoSupplier;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Files at paths that a user named are opened as that user. */
@RequiresRoot("acts as another user")
@Timeout(180)
@Tag("slow")
class UntrustedPathsTest {

  private static final Credentials USER = new Credentials(Stranger.ID, Stranger.ID, List.of());
  private static final Duration LIMIT = Duration.ofSeconds(20);
  private static final Duration LOOP_LIMIT = Duration.ofSeconds(150);
  private static final int MANY = 400;
  private static final String CREATED = "created";
  private static final String REFUSED = "refused";

  private Stranger stranger;
  private Path file;

  /** Whether a work has come to what is tested. */
  private final AtomicBoolean begun = new AtomicBoolean();

  @BeforeEach
  void prepare() throws IOException {
    stranger = Stranger.create();
    file = stranger.home().resolve("directory/file");
    stranger.run("mkdir directory; echo mine > directory/file");
  }

  @AfterEach
  void remove() {
    stranger.close();
  }

  private static Optional<String> read(Path path) throws IOException {
    return UntrustedPaths.as(USER, LIMIT, paths -> content(paths.read(path)));
  }

  private static Optional<String> content(Optional<OpenedFile> opened) throws IOException {
    if (opened.isEmpty()) {
      return Optional.empty();
    }
    try (OpenedFile open = opened.get()) {
      return Optional.of(new String(open.read(10_000), StandardCharsets.UTF_8));
    }
  }

  private static void assertRefused(Path path, String why) {
    FileSystemException e = assertThrows(FileSystemException.class, () -> read(path));
    assertTrue(e.getMessage().contains(why), e.getMessage());
  }

  @Test
  void readsAFileThatTheUserMayRead() throws IOException {
    assertEquals(Optional.of("mine\n"), read(file));
    assertEquals(Optional.empty(), read(file.resolveSibling("none")));
    assertEquals(Optional.of("mine\n"), read(file.resolve("../../directory/./file")));
  }

  @Test
  void refusesAFileThatOnlyRootMayRead() throws IOException {
    assertRefused(stranger.secret(), "errno 13");
    Files.createLink(file.resolveSibling("hard"), stranger.secret());
    assertRefused(file.resolveSibling("hard"), "errno 13");
  }

  @Test
  void linksOfTheUserAreNotFollowed() throws IOException {
    stranger.run("ln -s \"$0\" last; ln -s \"$1\" above", stranger.secret(), stranger.vault());
    assertRefused(stranger.home().resolve("last"), "errno 40");
    assertRefused(stranger.home().resolve("above/secret"), "symbolic link of user 65534");
    Path dangling = stranger.home().resolve("dangling");
    stranger.run("ln -s \"$0/new\" dangling", stranger.vault());
    assertThrows(
        FileSystemException.class,
        () -> UntrustedPaths.as(USER, LIMIT, paths -> paths.create(dangling)));
    assertEquals(List.of(), stranger.intruders());
  }

  @ParameterizedTest
  @ValueSource(strings = {"/tmp/%s/home", "../%s/home", ".././%s/vault/../home/directory/.."})
  void linksOfRootAmongParentsAreFollowed(String target) throws IOException {
    Files.setPosixFilePermissions(stranger.vault(), PosixFilePermissions.fromString("rwx--x--x"));
    String name = stranger.home().getParent().getFileName().toString();
    Path link = stranger.home().resolveSibling("link");
    Files.createSymbolicLink(link, Path.of(target.formatted(name)));
    Path path =
        UntrustedPaths.as(
            USER,
            LIMIT,
            paths -> {
              try (OpenedFile open = paths.read(link.resolve("directory/file")).orElseThrow()) {
                return open.path();
              }
            });
    assertEquals(file, path);
  }

  @Test
  void linksInACircleAreRefused() throws IOException {
    Path circle = stranger.home().resolveSibling("circle");
    Files.createSymbolicLink(circle, circle);
    assertRefused(circle.resolve("file"), "too many symbolic links");
  }

  @Test
  void fifoAndDeviceAreRefusedAtOnce() {
    stranger.run("mkfifo fifo");
    assertRefused(stranger.home().resolve("fifo"), "not a regular file");
    assertRefused(Path.of("/dev/null"), "not a regular file");
    assertRefused(stranger.home(), "not a regular file");
  }

  @Test
  void longNamesAreRefused() {
    assertRefused(stranger.home().resolve("x".repeat(300)), "errno 36");
    // Steps from the root to itself are the quickest: as another user each of the others takes a
    // millisecond, and on a busy machine ten thousand take longer than the limit.
    Path deep = Path.of("/" + ".//tmp/../".repeat(100) + "../".repeat(20_000) + "tmp/file");
    assertRefused(deep, "too long");
  }

  @Test
  void createdFilesBelongToTheUser() throws IOException {
    Path made = file.resolveSibling("made");
    UntrustedPaths.as(
        USER,
        LIMIT,
        paths -> {
          try (OpenedFile open = paths.create(made)) {
            open.replace(new ByteArrayInputStream("new".getBytes(StandardCharsets.UTF_8)));
            open.setMode(0640);
            paths.setOwner(open, Stranger.ID, Stranger.ID);
            assertThrows(IOException.class, () -> paths.setOwner(open, Stranger.ID, 0));
            assertThrows(IOException.class, () -> paths.setOwner(open, 0, Stranger.ID));
          }
          paths.link(made, file.resolveSibling("other"));
          return paths.makeDirectory(file.resolveSibling("inner"));
        });
    FileNode node = FileNode.at(made).orElseThrow();
    assertEquals(List.of(Stranger.ID, Stranger.ID), List.of(node.user(), node.group()));
    assertEquals(0640, node.permissions());
    assertEquals(2, node.links());
    assertEquals("new", Files.readString(made));
    assertEquals(Stranger.ID, Files.getAttribute(file.resolveSibling("inner"), "unix:uid"));
    UntrustedPaths.as(
        USER,
        LIMIT,
        paths -> {
          paths.remove(made, FileNode.at(file).orElseThrow());
          paths.remove(file.resolveSibling("other"), node);
          return 0;
        });
    assertTrue(Files.exists(made), "another file than was expected");
    assertFalse(Files.exists(file.resolveSibling("other")));
  }

  @Test
  void noFileIsCreatedWhereTheUserMayNotWrite() throws IOException {
    for (Path path : List.of(stranger.vault().resolve("a"), stranger.home().resolveSibling("a"))) {
      assertThrows(
          FileSystemException.class,
          () -> UntrustedPaths.as(USER, LIMIT, paths -> paths.create(path)));
      assertThrows(
          FileSystemException.class,
          () -> UntrustedPaths.as(USER, LIMIT, paths -> paths.makeDirectory(path)));
      assertFalse(Files.exists(path, LinkOption.NOFOLLOW_LINKS));
    }
  }

  /** The user exchanges a directory and a link to a vault, and a file and a link to the secret. */
  @Test
  void filesExchangedForLinksInALoopAreNotFollowed() throws Exception {
    stranger.run(
        "ln -s \"$0\" link; ln -s \"$1\" directory/link; cp directory/file directory/secret",
        stranger.vault(),
        stranger.secret());
    Process loop =
        stranger.start(
            "while [ -e directory ] || [ -e away ]; do"
                + " mv -T directory away; mv -T link directory; mv -T directory link; mv -T away directory;"
                + " ln -sf \"$0\" directory/file; rm -f directory/file; echo mine > directory/file;"
                + " done 2>/dev/null",
            stranger.secret());
    Set<String> expected = Set.of("mine\n", CREATED, REFUSED);
    Map<String, Integer> outcomes = new TreeMap<>();
    try {
      int unused =
          UntrustedPaths.as(
              USER,
              LOOP_LIMIT,
              paths -> {
                for (int i = 0; i < MANY || !outcomes.keySet().containsAll(expected); i++) {
                  for (String name : List.of("file", "secret")) {
                    count(outcomes, () -> content(paths.read(file.resolveSibling(name))));
                  }
                  Path made = file.resolveSibling("new" + i);
                  count(outcomes, () -> created(paths.create(made)));
                }
                return 0;
              });
    } finally {
      loop.destroyForcibly().waitFor();
    }
    assertEquals(List.of(), stranger.intruders());
    outcomes.keySet().removeAll(Set.of("mine\n", "", CREATED, REFUSED, "none"));
    assertEquals(Map.of(), outcomes);
  }

  private static Optional<String> created(OpenedFile made) {
    made.close();
    return Optional.of(CREATED);
  }

  private static void count(Map<String, Integer> outcomes, IoSupplier<Optional<String>> work)
      throws IOException {
    String outcome;
    try {
      outcome = work.get().orElse("none");
    } catch (FileSystemException e) {
      outcome = REFUSED;
    }
    outcomes.merge(outcome, 1, Integer::sum);
  }

  @Test
  void lateWorkLeavesNoFile() throws Exception {
    Path late = file.resolveSibling("late");
    CountDownLatch gate = new CountDownLatch(1);
    CompletableFuture<Throwable> end = new CompletableFuture<>();
    outlasted(
        limit ->
            UntrustedPaths.as(
                USER,
                limit,
                paths -> {
                  begun.set(true);
                  try {
                    gate.await();
                    paths.create(late).close();
                    end.complete(new AssertionError("it was created"));
                  } catch (InterruptedException | IOException | RuntimeException thrown) {
                    end.complete(thrown);
                  }
                  return 0;
                }));
    gate.countDown();
    assertEquals(CancellationException.class, end.get(20, TimeUnit.SECONDS).getClass());
    assertFalse(Files.exists(late));
  }

  /** The caller has gone on without it. */
  @Test
  void whatIsOpenedTooLateIsClosed() throws Exception {
    Files.writeString(file, "of the user");
    CountDownLatch gate = new CountDownLatch(1);
    CompletableFuture<OpenedFile> late = new CompletableFuture<>();
    outlasted(
        limit ->
            UntrustedPaths.ours(
                limit,
                paths -> {
                  Optional<OpenedFile> opened = paths.read(file);
                  late.complete(opened.orElseThrow());
                  begun.set(true);
                  Uninterrupted.until(
                      Deadline.never(), left -> gate.await(left, TimeUnit.NANOSECONDS));
                  return opened;
                }));
    Path descriptor = late.get(20, TimeUnit.SECONDS).self();
    assertTrue(isOpen(descriptor));
    gate.countDown();
    await().atMost(20, TimeUnit.SECONDS).until(() -> !isOpen(descriptor));
  }

  /** Gives works a longer time each until one has begun within it; it takes longer than that. */
  private void outlasted(IoFunction<Duration, Object> work) {
    for (int millis = 50; !begun.get(); millis *= 2) {
      Duration limit = Duration.ofMillis(millis);
      IOException e = assertThrows(IOException.class, () -> work.apply(limit));
      assertTrue(e.getMessage().contains("did not answer"), e.getMessage());
    }
  }

  private boolean isOpen(Path descriptor) throws IOException {
    try {
      return Files.isSameFile(descriptor, file);
    } catch (NoSuchFileException closed) {
      return false;
    }
  }

  @Test
  void threadsOfTheJvmKeepTheirCredentials() throws IOException {
    long self = ProcessHandle.current().pid();
    List<String> before = users(self);
    FileNode process = FileNode.at(Path.of("/proc/self/maps")).orElseThrow();
    assertEquals(Optional.of("mine\n"), read(file));
    assertEquals(before, users(self));
    assertEquals(process.user(), FileNode.at(Path.of("/proc/self/maps")).orElseThrow().user());
    UntrustedPaths.as(
        USER,
        LIMIT,
        paths -> {
          content(paths.read(file));
          assertEquals(
              List.of("0", "0"),
              List.of(
                  Files.readString(Path.of("/proc/thread-self/status"))
                      .replaceAll("(?s).*\nUid:\t\\d+\t\\d+\t\\d+\t(\\d+)\n.*", "$1"),
                  Files.readString(Path.of("/proc/thread-self/status"))
                      .replaceAll("(?s).*\nGid:\t\\d+\t\\d+\t\\d+\t(\\d+)\n.*", "$1")));
          return 0;
        });
  }

  private static List<String> users(long pid) {
    return ProcFs.threads(pid).stream()
        .map(thread -> ProcFs.status(thread).getOrDefault("Uid", "0\t0\t0\t0"))
        .distinct()
        .toList();
  }

  @Test
  void supplementaryGroupsCount() throws IOException {
    Files.setAttribute(stranger.vault(), "unix:gid", 12_345);
    Files.setAttribute(stranger.secret(), "unix:gid", 12_345);
    for (Path path : List.of(stranger.vault(), stranger.secret())) {
      Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwxr-x---"));
    }
    Credentials member = new Credentials(Stranger.ID, Stranger.ID, List.of(7, 12_345));
    assertEquals(
        Optional.of(Stranger.SECRET),
        UntrustedPaths.as(member, LIMIT, paths -> content(paths.read(stranger.secret()))));
    assertRefused(stranger.secret(), "errno 13");
  }

  @Test
  void credentialsOfAProcessAreRead() throws IOException, InterruptedException {
    Process sleeper = stranger.start("echo > started; exec sleep 600");
    try {
      Workload.await(() -> Files.exists(stranger.home().resolve("started")), "the process");
      assertEquals(Optional.of(USER), Credentials.of(sleeper.pid()));
      int pid = Math.toIntExact(sleeper.pid());
      assertThrows(
          FileSystemException.class,
          () -> UntrustedPaths.as(pid, LIMIT, paths -> paths.read(stranger.secret())));
    } finally {
      sleeper.destroyForcibly().waitFor();
    }
    assertThrows(
        NoSuchFileException.class,
        () -> UntrustedPaths.as(Math.toIntExact(sleeper.pid()), LIMIT, paths -> paths.read(file)));
  }

  @Test
  void credentialsSurviveAsText() {
    Credentials many = new Credentials(-2, 1000, List.of(0, -2, 7));
    assertEquals("4294967294:1000:0,4294967294,7", many.toString());
    assertEquals(Optional.of(many), Credentials.parse(many.toString()));
    assertEquals(Optional.of(USER), Credentials.parse(USER.toString()));
    for (String bad : List.of("", "1:2", "1:2:x", "99999999999:1:", "9999999999:1:")) {
      assertEquals(Optional.empty(), Credentials.parse(bad), bad);
    }
  }
}
