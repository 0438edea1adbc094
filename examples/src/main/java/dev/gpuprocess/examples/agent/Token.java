package dev.gpuprocess.examples.agent;

import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses calls without the token of a file, except health checks. The file is read for each call,
 * so that a new token is used at once.
 */
final class Token implements ServerInterceptor {

  private static final Logger LOG = LoggerFactory.getLogger(Token.class);
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final String SCHEME = "Bearer ";
  private static final int SHORTEST = 16;

  private final Path file;

  /**
   * Reads the token.
   *
   * @param file that other users can neither read nor write
   * @throws IOException when the file cannot be read or must not be used
   */
  Token(Path file) throws IOException {
    this.file = file;
    read();
  }

  private byte[] read() throws IOException {
    String token = Files.readString(SecretFile.check(file), StandardCharsets.UTF_8).strip();
    if (token.length() < SHORTEST) {
      throw new IOException(
          "the token in %s has less than %s characters".formatted(file, SHORTEST));
    }
    return token.getBytes(StandardCharsets.UTF_8);
  }

  @Override
  public <Q, R> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
    Status refusal =
        HealthService.NAME.equals(call.getMethodDescriptor().getServiceName())
            ? Status.OK
            : check(headers.getAll(AUTHORIZATION));
    if (refusal.isOk()) {
      return next.startCall(call, headers);
    }
    call.close(refusal, new Metadata());
    return new ServerCall.Listener<>() {};
  }

  /** A call with several tokens is refused: a proxy may have checked another one. */
  private Status check(@Nullable Iterable<String> headers) {
    List<String> given = new ArrayList<>();
    if (headers != null) {
      headers.forEach(given::add);
    }
    String header = given.size() == 1 ? given.get(0) : "";
    if (!header.regionMatches(true, 0, SCHEME, 0, SCHEME.length())) {
      return Status.UNAUTHENTICATED.withDescription(
          "send the metadata authorization: Bearer TOKEN");
    }
    try {
      byte[] token = header.substring(SCHEME.length()).getBytes(StandardCharsets.UTF_8);
      return MessageDigest.isEqual(read(), token)
          ? Status.OK
          : Status.UNAUTHENTICATED.withDescription("this is not the token of the agent");
    } catch (IOException e) {
      LOG.error("all calls are refused: {}", e.toString());
      return Status.UNAVAILABLE.withDescription("the agent cannot read its token");
    }
  }
}
