package dev.gpuprocess.examples.agent;

import dev.gpuprocess.examples.agent.protocol.health.HealthCheckRequest;
import dev.gpuprocess.examples.agent.protocol.health.HealthCheckResponse;
import dev.gpuprocess.examples.agent.protocol.health.HealthCheckResponse.ServingStatus;
import io.grpc.BindableService;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import java.util.Set;
import java.util.function.BooleanSupplier;

/** The health protocol of gRPC, without {@code Watch}. */
final class HealthService implements BindableService {

  static final String NAME = "grpc.health.v1.Health";

  /** The empty name is the agent; llm-d's agent also has its backend. */
  private static final Set<String> SERVICES =
      Set.of("", "cuda", SnapshotAgentService.NAME, TimeSliceService.NAME, ImageVolume.NAME);

  private final BooleanSupplier ready;

  /**
   * Creates the service.
   *
   * @param ready must not block: it is called on a thread of the connections
   */
  HealthService(BooleanSupplier ready) {
    this.ready = ready;
  }

  @Override
  public ServerServiceDefinition bindService() {
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(NAME);
    Rpc.unary(
        service,
        NAME + "/Check",
        HealthCheckRequest.getDefaultInstance(),
        HealthCheckResponse.getDefaultInstance(),
        Runnable::run,
        this::check);
    return service.build();
  }

  private HealthCheckResponse check(HealthCheckRequest request) {
    if (!SERVICES.contains(request.getService())) {
      throw Status.NOT_FOUND.withDescription("no such service").asRuntimeException();
    }
    return HealthCheckResponse.newBuilder()
        .setStatus(ready.getAsBoolean() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING)
        .build();
  }
}
