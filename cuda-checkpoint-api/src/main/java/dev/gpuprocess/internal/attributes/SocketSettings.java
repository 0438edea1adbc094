package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.TakenSocket;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SocketTables;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The options and the multicast groups of an IP socket, which CRIU restores in part.
 *
 * @param pid a process that has the socket, in its own pid namespace
 * @param descriptor its descriptor there
 * @param options the options
 * @param groups the groups
 */
public record SocketSettings(
    int pid, int descriptor, SocketOptions options, List<GroupMembership> groups) {

  private static final String WORD = "socket";
  private static final String GROUP = "group:";
  private static final int HEAD = 3;

  /**
   * Reads the sockets of a process.
   *
   * @param seen the inodes of sockets that were read, to which this method adds
   * @throws NativeCallException when this JVM may not duplicate descriptors of the process
   */
  public static List<SocketSettings> of(int pid, Set<Long> seen) throws NativeCallException {
    List<SocketSettings> found = new ArrayList<>();
    List<GroupMembership.Candidate> candidates = GroupMembership.candidates(pid);
    int inside = ProcFs.innermostPid(pid).orElse(pid);
    for (OpenFile file : ProcFs.openFiles(pid)) {
      Optional<Long> inode = SocketTables.inode(file.target());
      if (inode.isPresent() && seen.add(inode.get())) {
        try (TakenSocket socket = TakenSocket.of(pid, file.number())) {
          SocketOptions.of(socket)
              .ifPresent(
                  options ->
                      found.add(
                          new SocketSettings(
                              inside,
                              file.number(),
                              options,
                              SocketOptions.isForGroups(socket)
                                  ? GroupMembership.of(socket, candidates)
                                  : List.of())));
        }
      }
    }
    return found;
  }

  /**
   * Sets on the restored socket what differs.
   *
   * @param number the restored process, in the pid namespace of this JVM
   * @return what the kernel does not accept
   * @throws NativeCallException when this JVM may not duplicate descriptors of the process
   */
  public List<String> putBack(int number) throws NativeCallException {
    try (TakenSocket socket = TakenSocket.of(number, descriptor)) {
      if (SocketOptions.of(socket).isEmpty()) {
        return List.of();
      }
      List<String> refused = new ArrayList<>(options.setOn(socket));
      if (!groups.isEmpty()) {
        List<GroupMembership.Candidate> candidates = GroupMembership.candidates(number);
        groups.stream()
            .filter(group -> !group.joinedBy(socket, candidates))
            .forEach(group -> refused.add("a group on " + group.device()));
      }
      return refused;
    }
  }

  /**
   * Parses the text of {@link #toString}.
   *
   * @return empty when the line is something else
   */
  public static Optional<SocketSettings> parse(String line) {
    List<String> words = Arrays.asList(line.split(" "));
    if (words.size() < HEAD
        || !words.get(0).equals(WORD)
        || !words.subList(1, HEAD).stream().allMatch(word -> word.matches("\\d{1,9}"))) {
      return Optional.empty();
    }
    List<String> rest = words.subList(HEAD, words.size());
    List<Optional<GroupMembership>> groups =
        rest.stream()
            .filter(word -> word.startsWith(GROUP))
            .map(word -> GroupMembership.parse(word.substring(GROUP.length())))
            .toList();
    return groups.stream().allMatch(Optional::isPresent)
        ? SocketOptions.parse(rest.stream().filter(word -> !word.startsWith(GROUP)).toList())
            .map(
                options ->
                    new SocketSettings(
                        Integer.parseInt(words.get(1)),
                        Integer.parseInt(words.get(2)),
                        options,
                        groups.stream().flatMap(Optional::stream).toList()))
        : Optional.empty();
  }

  /** Returns one line for an image. */
  @Override
  public String toString() {
    String head = "%s %s %s".formatted(WORD, Integer.toString(pid), Integer.toString(descriptor));
    return Stream.concat(
            Stream.of(head, options.toString()).filter(text -> !text.isEmpty()),
            groups.stream().map(group -> GROUP + group))
        .collect(Collectors.joining(" "));
  }
}
