package dev.gpuprocess.examples.agent;

import com.google.protobuf.Descriptors;
import com.google.protobuf.Message;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.options.Cancellation;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Function;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Methods of gRPC services: what protoc's plugin for gRPC generates elsewhere, and the status of
 * failures.
 */
final class Rpc {

  private static final Logger LOG = LoggerFactory.getLogger(Rpc.class);

  /** The address of the client of a call. */
  private static final Context.Key<String> PEER = Context.key("peer");

  /** The calls that move a process, which the log has with their client and their outcome. */
  private static final Set<String> MOVES =
      Set.of("Snapshot", "Restore", "Dump", "Acquire", "Yield");

  private Rpc() {}

  /** Returns what records the client of each call. */
  static ServerInterceptor peers() {
    return new ServerInterceptor() {
      @Override
      public <Q, R> ServerCall.Listener<Q> interceptCall(
          ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        String peer = String.valueOf(call.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR));
        return Contexts.interceptCall(Context.current().withValue(PEER, peer), call, headers, next);
      }
    };
  }

  /** Returns the call as the log names it. */
  private static String name(String fullName, Message request) {
    Descriptors.FieldDescriptor job = request.getDescriptorForType().findFieldByName("job_id");
    return "%s of job %s by %s"
        .formatted(
            fullName.substring(fullName.lastIndexOf('/') + 1),
            job == null ? "(none)" : request.getField(job),
            PEER.get());
  }

  /**
   * Adds a method that takes one message and returns one.
   *
   * @param service to be added to
   * @param fullName {@code package.Service/Method}
   * @param request any request
   * @param reply any reply
   * @param by runs the work; a call that it rejects is refused with RESOURCE_EXHAUSTED
   * @param work makes the reply; blocks its thread
   */
  static <Q extends Message, R extends Message> void unary(
      ServerServiceDefinition.Builder service,
      String fullName,
      Q request,
      R reply,
      Executor by,
      Function<Q, R> work) {
    service.addMethod(
        MethodDescriptor.<Q, R>newBuilder()
            .setType(MethodType.UNARY)
            .setFullMethodName(fullName)
            .setRequestMarshaller(ProtoUtils.marshaller(request))
            .setResponseMarshaller(ProtoUtils.marshaller(reply))
            .build(),
        ServerCalls.asyncUnaryCall(
            (received, observer) -> {
              ServerCallStreamObserver<R> call = (ServerCallStreamObserver<R>) observer;
              call.setOnCancelHandler(() -> LOG.debug("{} was cancelled", fullName));
              try {
                by.execute(
                    Context.current()
                        .wrap(() -> answer(fullName, received, () -> work.apply(received), call)));
              } catch (RejectedExecutionException | OutOfMemoryError e) {
                LOG.info("{}: too many calls are under way", fullName);
                call.onError(
                    Status.RESOURCE_EXHAUSTED
                        .withDescription("too many calls are under way in this agent; retry")
                        .asRuntimeException());
              }
            }));
  }

  private static <R> void answer(
      String fullName, Message request, Supplier<R> work, ServerCallStreamObserver<R> call) {
    if (call.isCancelled()) {
      return; // while it waited for a thread
    }
    long began = System.nanoTime();
    R made;
    try {
      made = work.get();
    } catch (RuntimeException e) {
      LOG.info("{}: {}", name(fullName, request), e.getMessage());
      if (!call.isCancelled()) { // after a shutdown, the threads of the connections are gone
        call.onError(failure(e));
      }
      return;
    } catch (Error e) {
      LOG.error("{}", fullName, e);
      call.onError(Status.INTERNAL.withDescription(e.toString()).withCause(e).asRuntimeException());
      return;
    }
    if (MOVES.contains(fullName.substring(fullName.lastIndexOf('/') + 1))) {
      LOG.info("{}: {} ms", name(fullName, request), (System.nanoTime() - began) / 1_000_000);
    }
    call.onNext(made);
    call.onCompleted();
  }

  /** Returns what is cancelled when the present call is, or when its deadline passes. */
  static Cancellation cancellation() {
    Cancellation cancellation = new Cancellation();
    Context.current().addListener(ended -> cancellation.cancel(), Runnable::run);
    return cancellation;
  }

  /** Returns a failure with the status that callers of gRPC act on. */
  static StatusRuntimeException failure(RuntimeException failure) {
    if (failure instanceof StatusRuntimeException known) {
      return known;
    }
    return status(failure)
        .withDescription(String.valueOf(failure.getMessage()))
        .withCause(failure)
        .asRuntimeException();
  }

  private static Status status(RuntimeException failure) {
    if (failure instanceof OperationCancelledException) {
      return Status.CANCELLED;
    }
    if (failure instanceof OperationTimedOutException) {
      return Status.DEADLINE_EXCEEDED;
    }
    if (failure instanceof OperationInProgressException) {
      return Status.ABORTED;
    }
    if (failure instanceof InsufficientGpuMemoryException) {
      return Status.RESOURCE_EXHAUSTED;
    }
    if (failure instanceof NoSuchProcessException) {
      return Status.NOT_FOUND;
    }
    if (failure instanceof FixAndRetryException
        || failure instanceof ProcessUnfitException
        || failure instanceof MachineUnfitException) {
      return Status.FAILED_PRECONDITION;
    }
    return failure instanceof GpuCheckpointException ? Status.UNAVAILABLE : Status.INTERNAL;
  }
}
