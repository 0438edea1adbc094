package dev.gpuprocess.examples.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.examples.agent.ControlGroups.Container;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The forms of control groups that kubelets and runtimes make. */
class ControlGroupsTest {

  private static final String POD = "7b2c1e4a-0e3a-4f1b-9c2d-2a5f6e8d1234";
  private static final String OTHER_POD = "00000000-0e3a-4f1b-9c2d-2a5f6e8d1234";
  private static final String ID =
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

  @TempDir private Path directory;

  @ParameterizedTest
  @ValueSource(
      strings = {
        // version 2, systemd, with containerd, CRI-O and Docker
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU.slice/cri-containerd-C.scope",
        "0::/kubepods.slice/kubepods-podU.slice/crio-C.scope",
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU.slice/docker-C.scope/init",
        // as a container with a control group namespace sees others
        "0::/../../kubepods-burstable-podU.slice/cri-containerd-C.scope",
        // kind
        "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU.slice/cri-containerd-C.scope",
        // cgroupfs
        "0::/kubepods/burstable/podP/C",
        "0::/kubepods/podP/C",
        // version 1
        "12:memory:/kubepods/besteffort/podP/C\n1:name=systemd:/kubepods/besteffort/podP/C",
        "3:devices:/system.slice/containerd.service/kubepods-podU.slice:cri-containerd:C",
        // what a container makes below itself does not count
        "0::/kubepods/podP/C/kubepods/podO/C",
      })
  void isRead(String form) {
    String text =
        form.replace("podU", "pod" + POD.replace('-', '_'))
            .replace("podP", "pod" + POD)
            .replace("podO", "pod" + OTHER_POD)
            .replaceAll("\\bC\\b", ID);
    assertEquals(Optional.of(new Container(POD, ID)), ControlGroups.parse(text), text);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "0::/",
        "0::/user.slice/user-1000.slice/session-1.scope",
        "0::/system.slice/kubelet.service",
        "0::/kubepods.slice/kubepods-burstable.slice",
        "0::/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
      })
  void isInNoPod(String text) {
    assertEquals(Optional.empty(), ControlGroups.parse(text));
  }

  @Test
  void readsAStaticPodWithoutHyphens() {
    String uid = POD.replace("-", "");
    assertEquals(
        Optional.of(new Container(uid, ID)),
        ControlGroups.parse("0::/kubepods/burstable/pod" + uid + "/" + ID));
  }

  @Test
  void readsAVariable() throws IOException {
    ControlGroups groups = new ControlGroups(directory);
    Files.createDirectory(directory.resolve("7"));
    Files.writeString(directory.resolve("7/environ"), "PATH=/bin\0JOB=a=b\0JOBS=c\0");
    assertEquals(Optional.of("a=b"), groups.variable(7, "JOB"));
    assertEquals(Optional.empty(), groups.variable(7, "ATH"));
    assertEquals(Optional.empty(), groups.variable(8, "JOB"));
    assertEquals(Optional.empty(), groups.container(8));
  }

  /** A process can make its environment that large by {@code PR_SET_MM}. */
  @Test
  void doesNotReadAHugeEnvironment() throws IOException {
    ControlGroups groups = new ControlGroups(directory);
    for (String name : List.of("environ", "cgroup")) {
      Path file = Files.createDirectories(directory.resolve("7")).resolve(name);
      try (RandomAccessFile sparse = new RandomAccessFile(file.toFile(), "rw")) {
        sparse.write("JOB=a\0".getBytes(StandardCharsets.UTF_8));
        sparse.setLength(3L << 30);
      }
    }
    assertEquals(Optional.empty(), groups.variable(7, "JOB"));
    assertEquals(Optional.empty(), groups.container(7));
    Files.createDirectory(directory.resolve("8"));
    Files.writeString(
        directory.resolve("8/environ"),
        "A=" + "b".repeat(1 << 19) + "\0JOB=a",
        StandardCharsets.UTF_8);
    assertEquals(Optional.of("a"), groups.variable(8, "JOB"));
  }
}
