package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.introspect.Annotated;
import com.fasterxml.jackson.databind.introspect.JacksonAnnotationIntrospector;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.Cancellation;
import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.Namespace;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodSpec;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceAccount;
import io.fabric8.kubernetes.api.model.apps.DaemonSet;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicy;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;

/** The command that starts the agent, and the manifests that start the command. */
class AgentCommandTest {

  private static final Path MANIFESTS =
      Path.of(System.getProperty("gpuprocess.root"), "examples/src/main/kubernetes");

  private static final Map<String, Class<?>> KINDS =
      Map.of(
          "v1 Namespace", Namespace.class,
          "v1 ServiceAccount", ServiceAccount.class,
          "v1 Service", Service.class,
          "v1 Pod", Pod.class,
          "apps/v1 DaemonSet", DaemonSet.class,
          "networking.k8s.io/v1 NetworkPolicy", NetworkPolicy.class);

  private static final ObjectMapper STRICT = strict();

  @TempDir private Path directory;

  /** Without the setters that take any field, an unknown field is a failure. */
  private static ObjectMapper strict() {
    ObjectMapper mapper = new ObjectMapper();
    mapper.setAnnotationIntrospector(
        new JacksonAnnotationIntrospector() {
          private static final long serialVersionUID = 1L;

          @Override
          public Boolean hasAnySetter(Annotated annotated) {
            return false;
          }
        });
    return mapper;
  }

  private static List<Object> objects(String file) throws IOException {
    List<Object> objects = new ArrayList<>();
    String text = Files.readString(MANIFESTS.resolve(file));
    for (Object each : new Load(LoadSettings.builder().build()).loadAllFromString(text)) {
      Map<?, ?> fields = assertInstanceOf(Map.class, each);
      objects.add(typed(fields));
    }
    return objects;
  }

  private static Object typed(Map<?, ?> fields) {
    Class<?> type = KINDS.get(fields.get("apiVersion") + " " + fields.get("kind"));
    assertTrue(type != null, () -> "an unknown kind: " + fields);
    return STRICT.convertValue(fields, type);
  }

  private static <T> T only(List<Object> objects, Class<T> type) {
    return objects.stream().filter(type::isInstance).map(type::cast).findFirst().orElseThrow();
  }

  @Test
  void manifestsHaveTheFieldsOfTheApi() throws IOException {
    assertEquals(5, objects("agent.yaml").size());
    assertEquals(1, objects("job.yaml").size());
    assertThrows(
        IllegalArgumentException.class,
        () -> typed(Map.of("apiVersion", "v1", "kind", "Pod", "spec", Map.of("hostPid", true))));
  }

  @Test
  void theDaemonSetStartsTheCommand() throws IOException {
    List<Object> objects = objects("agent.yaml");
    DaemonSet set = only(objects, DaemonSet.class);
    PodSpec pod = set.getSpec().getTemplate().getSpec();
    Container container = pod.getContainers().get(0);
    // Refuses options that the command does not have.
    var parsed =
        CommandLineTool.commandLine().parseArgs(container.getArgs().toArray(String[]::new));
    assertInstanceOf(
        AgentCommand.class, parsed.asCommandLineList().get(1).getCommand(), parsed::toString);
    assertTrue(pod.getHostPID());
    assertTrue(container.getSecurityContext().getPrivileged());
    assertEquals(0400, pod.getVolumes().get(0).getSecret().getDefaultMode());
    Map<String, String> labels = set.getSpec().getTemplate().getMetadata().getLabels();
    assertEquals(labels, set.getSpec().getSelector().getMatchLabels());
    assertEquals(labels, only(objects, Service.class).getSpec().getSelector());
    assertEquals(
        labels, only(objects, NetworkPolicy.class).getSpec().getPodSelector().getMatchLabels());
    assertEquals(
        only(objects, ServiceAccount.class).getMetadata().getName(), pod.getServiceAccountName());
    assertFalse(pod.getAutomountServiceAccountToken());
  }

  @Test
  @SimulatedGpu
  void refusesMissingAndWrongArguments(GpuCheckpoints machine) throws IOException {
    Path images = directory.resolve("images");
    assertEquals(2, Call.of(machine, "agent", "--images", images).code());
    assertEquals(2, Call.of(machine, "agent", "--no-token").code());
    Call unmounted = Call.of(machine, "agent", "--images", "/proc/none", "--no-token");
    assertEquals(4, unmounted.code(), unmounted::toString);
    assertEquals(
        2, Call.of(machine, "agent", "--images", images, "--no-token", "--listen", "a").code());
    assertEquals(
        2, Call.of(machine, "agent", "--images", images, "--no-token", "--tls-key", images).code());
    Path token = Files.writeString(directory.resolve("token"), "short");
    assertEquals(4, Call.of(machine, "agent", "--images", images, "--token-file", token).code());
  }

  @Test
  @SimulatedGpu
  void servesUntilItIsCancelled(GpuCheckpoints machine) throws Exception {
    Cancellation cancellation = new Cancellation();
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    PrintStream stream = new PrintStream(out, true, StandardCharsets.UTF_8);
    CommandLineTool tool = new CommandLineTool(() -> machine, cancellation, stream, stream);
    CompletableFuture<Integer> code =
        CompletableFuture.supplyAsync(
            () ->
                tool.run(
                    List.of(
                        "agent",
                        "--no-token",
                        "--listen=127.0.0.1:0",
                        "--http=127.0.0.1:0",
                        "--images=" + directory.resolve("images"))));
    Pattern printed = Pattern.compile("metrics on port (\\d+)");
    assertTrue(
        Await.until(
            Duration.ofSeconds(40),
            () -> code.isDone() || printed.matcher(out.toString(StandardCharsets.UTF_8)).find()));
    Matcher port = printed.matcher(out.toString(StandardCharsets.UTF_8));
    assertTrue(port.find(), () -> out.toString(StandardCharsets.UTF_8));
    URI uri = URI.create("http://127.0.0.1:%s/readyz".formatted(port.group(1)));
    HttpResponse<String> ready =
        HttpClient.newHttpClient()
            .send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
    assertEquals("ok\n", ready.body());
    cancellation.cancel();
    assertEquals(0, code.get());
  }

  /** The other commands start as fast as before. */
  @Test
  @SimulatedGpu
  void otherCommandsLoadNoClassOfTheAgent(
      GpuCheckpoints machine, SimulatedDriver driver, Counter counter) throws Exception {
    Path loaded = directory.resolve("loaded");
    Process child =
        new ProcessBuilder(
                Call.program(
                    driver,
                    machine,
                    List.of("-Xlog:class+load:file=" + loaded),
                    "state",
                    counter.pid()))
            .redirectErrorStream(true)
            .start();
    assertEquals(
        "running\n", new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
    assertEquals(0, child.waitFor());
    String classes = Files.readString(loaded);
    assertTrue(classes.contains("dev.gpuprocess.examples.cli.StateCommand"), classes);
    assertFalse(Pattern.compile("io\\.grpc|micrometer|examples\\.agent").matcher(classes).find());
  }
}
