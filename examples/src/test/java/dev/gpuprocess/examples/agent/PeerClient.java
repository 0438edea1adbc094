package dev.gpuprocess.examples.agent;

import com.google.common.util.concurrent.ListenableFuture;
import com.google.protobuf.Message;
import dev.gpuprocess.examples.agent.protocol.health.HealthCheckRequest;
import dev.gpuprocess.examples.agent.protocol.health.HealthCheckResponse;
import dev.gpuprocess.examples.agent.protocol.health.HealthCheckResponse.ServingStatus;
import dev.gpuprocess.examples.agent.protocol.snapshot.BackendConfig;
import dev.gpuprocess.examples.agent.protocol.snapshot.CudaBackendConfig;
import dev.gpuprocess.examples.agent.protocol.snapshot.GetOperationRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.GetOperationResponse;
import dev.gpuprocess.examples.agent.protocol.snapshot.JobState;
import dev.gpuprocess.examples.agent.protocol.snapshot.JobStatus;
import dev.gpuprocess.examples.agent.protocol.snapshot.OperationStatus;
import dev.gpuprocess.examples.agent.protocol.snapshot.ProcessTarget;
import dev.gpuprocess.examples.agent.protocol.snapshot.RestoreRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.RestoreResponse;
import dev.gpuprocess.examples.agent.protocol.snapshot.SnapshotRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.SnapshotResponse;
import dev.gpuprocess.examples.agent.protocol.snapshot.StatusRequest;
import dev.gpuprocess.examples.agent.protocol.snapshot.StatusResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.AcquireRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.AcquireResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.GetGroupStatusRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.GetGroupStatusResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.ListGroupsRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.ListGroupsResponse;
import dev.gpuprocess.examples.agent.protocol.timeslice.YieldRequest;
import dev.gpuprocess.examples.agent.protocol.timeslice.YieldResponse;
import dev.gpuprocess.examples.demo.Await;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.TlsChannelCredentials;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** A client that knows the protocols of llm-d and nothing of this project. */
final class PeerClient implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofSeconds(40);
  private static final String AGENT = "snapshot_agent.v1alpha1.SnapshotAgentService/";
  private static final String TURNS =
      "timeslice_orchestrator.v1alpha1.TimeSliceOrchestratorService/";

  private final ManagedChannel connection;
  private final Channel channel;

  PeerClient(int port, @Nullable String token) {
    this(ManagedChannelBuilder.forAddress("127.0.0.1", port).usePlaintext().build(), token);
  }

  /** A client without a token, with no threads of its own for replies. */
  static PeerClient withoutThreads(int port) {
    return new PeerClient(
        ManagedChannelBuilder.forAddress("127.0.0.1", port).usePlaintext().directExecutor().build(),
        null);
  }

  /** A client that trusts a certificate. */
  PeerClient(int port, String token, Path certificate) throws IOException {
    this(
        Grpc.newChannelBuilderForAddress(
                "localhost",
                port,
                TlsChannelCredentials.newBuilder().trustManager(certificate.toFile()).build())
            .build(),
        token);
  }

  private PeerClient(ManagedChannel connection, @Nullable String token) {
    this.connection = connection;
    if (token == null) {
      channel = connection;
    } else {
      Metadata headers = new Metadata();
      headers.put(
          Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + token);
      channel =
          ClientInterceptors.intercept(
              connection, MetadataUtils.newAttachHeadersInterceptor(headers));
    }
  }

  <Q extends Message, R extends Message> R call(
      String method, Q request, R reply, Duration deadline) {
    return ClientCalls.blockingUnaryCall(
        channel,
        method(method, request, reply),
        CallOptions.DEFAULT.withDeadlineAfter(deadline.toMillis(), TimeUnit.MILLISECONDS),
        request);
  }

  @SuppressWarnings("unchecked")
  private static <Q extends Message, R extends Message> MethodDescriptor<Q, R> method(
      String name, Q request, R reply) {
    return MethodDescriptor.<Q, R>newBuilder()
        .setType(MethodDescriptor.MethodType.UNARY)
        .setFullMethodName(name)
        .setRequestMarshaller(ProtoUtils.marshaller((Q) request.getDefaultInstanceForType()))
        .setResponseMarshaller(ProtoUtils.marshaller(reply))
        .build();
  }

  private static BackendConfig config(long... pids) {
    if (pids.length == 0) {
      return BackendConfig.getDefaultInstance();
    }
    List<Integer> all = new ArrayList<>();
    for (long pid : pids) {
      all.add((int) pid);
    }
    return BackendConfig.newBuilder()
        .setCuda(
            CudaBackendConfig.newBuilder()
                .setExplicitTarget(ProcessTarget.newBuilder().addAllPids(all)))
        .build();
  }

  String snapshot(String job, long... pids) {
    return snapshot(job, config(pids));
  }

  String snapshot(String job, BackendConfig config) {
    return call(
            AGENT + "Snapshot",
            SnapshotRequest.newBuilder().setJobId(job).setBackendConfig(config).build(),
            SnapshotResponse.getDefaultInstance(),
            PATIENCE)
        .getOperationId();
  }

  String restore(String job, long... pids) {
    return call(
            AGENT + "Restore",
            RestoreRequest.newBuilder().setJobId(job).setBackendConfig(config(pids)).build(),
            RestoreResponse.getDefaultInstance(),
            PATIENCE)
        .getOperationId();
  }

  GetOperationResponse operation(String id) {
    return call(
        AGENT + "GetOperation",
        GetOperationRequest.newBuilder().setOperationId(id).build(),
        GetOperationResponse.getDefaultInstance(),
        PATIENCE);
  }

  /** Polls until the operation has ended, as orchestrators do. */
  GetOperationResponse ended(String id) {
    if (!Await.until(
        PATIENCE, () -> operation(id).getStatus() != OperationStatus.OPERATION_STATUS_PENDING)) {
      throw new AssertionError("operation " + id + " does not end");
    }
    return operation(id);
  }

  StatusResponse status() {
    return call(
        AGENT + "Status",
        StatusRequest.getDefaultInstance(),
        StatusResponse.getDefaultInstance(),
        PATIENCE);
  }

  @Nullable JobState state(String job) {
    return status().getJobStatusesList().stream()
        .filter(each -> each.getJobId().equals(job))
        .map(JobStatus::getState)
        .findFirst()
        .orElse(null);
  }

  AcquireResponse acquire(String group, String job, Duration deadline) {
    return call(
        TURNS + "Acquire",
        AcquireRequest.newBuilder().setGroupId(group).setJobId(job).build(),
        AcquireResponse.getDefaultInstance(),
        deadline);
  }

  AcquireResponse acquire(String group, String job) {
    return acquire(group, job, PATIENCE);
  }

  YieldResponse yieldTurn(String group, String job) {
    return call(
        TURNS + "Yield",
        YieldRequest.newBuilder().setGroupId(group).setJobId(job).build(),
        YieldResponse.getDefaultInstance(),
        PATIENCE);
  }

  List<String> groups() {
    return call(
            TURNS + "ListGroups",
            ListGroupsRequest.getDefaultInstance(),
            ListGroupsResponse.getDefaultInstance(),
            PATIENCE)
        .getGroupIdsList();
  }

  GetGroupStatusResponse group(String group) {
    return call(
        TURNS + "GetGroupStatus",
        GetGroupStatusRequest.newBuilder().setGroupId(group).build(),
        GetGroupStatusResponse.getDefaultInstance(),
        PATIENCE);
  }

  /** Begins a health check of the agent. */
  ListenableFuture<HealthCheckResponse> beginHealth() {
    HealthCheckRequest request = HealthCheckRequest.getDefaultInstance();
    return ClientCalls.futureUnaryCall(
        channel.newCall(
            method(
                "grpc.health.v1.Health/Check", request, HealthCheckResponse.getDefaultInstance()),
            CallOptions.DEFAULT.withDeadlineAfter(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)),
        request);
  }

  /** Begins to wait for a turn. */
  ListenableFuture<AcquireResponse> beginAcquire(String group, String job) {
    AcquireRequest request = AcquireRequest.newBuilder().setGroupId(group).setJobId(job).build();
    return ClientCalls.futureUnaryCall(
        channel.newCall(
            method(TURNS + "Acquire", request, AcquireResponse.getDefaultInstance()),
            CallOptions.DEFAULT.withDeadlineAfter(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)),
        request);
  }

  ServingStatus health(String service) {
    return call(
            "grpc.health.v1.Health/Check",
            HealthCheckRequest.newBuilder().setService(service).build(),
            HealthCheckResponse.getDefaultInstance(),
            PATIENCE)
        .getStatus();
  }

  @Override
  public void close() {
    connection.shutdownNow();
  }
}
