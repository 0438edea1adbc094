package dev.gpuprocess.examples.agent;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BooleanSupplier;

/** {@code /metrics} for Prometheus, {@code /healthz} and {@code /readyz}. Needs no token. */
final class HttpEndpoint implements AutoCloseable {

  private static final int OK = 200;
  private static final int NOT_FOUND = 404;
  private static final int NOT_ALLOWED = 405;
  private static final int UNAVAILABLE = 503;

  private final HttpServer server;
  private final ExecutorService threads;

  HttpEndpoint(InetSocketAddress address, AgentMetrics metrics, BooleanSupplier ready)
      throws IOException {
    server = HttpServer.create(address, 0);
    threads =
        Executors.newFixedThreadPool(
            2,
            work -> {
              Thread thread = new Thread(work, "gpuprocess http");
              thread.setDaemon(true);
              return thread;
            });
    server.setExecutor(threads);
    server.createContext(
        "/",
        exchange -> {
          switch (exchange.getRequestURI().getPath()) {
            case "/metrics" ->
                reply(exchange, OK, "text/plain; version=0.0.4; charset=utf-8", metrics.scrape());
            case "/healthz" -> reply(exchange, OK, "text/plain", "ok\n");
            case "/readyz" -> {
              boolean isReady = ready.getAsBoolean();
              reply(
                  exchange,
                  isReady ? OK : UNAVAILABLE,
                  "text/plain",
                  isReady ? "ok\n" : "the GPUs of this node cannot be read\n");
            }
            default -> reply(exchange, NOT_FOUND, "text/plain", "not found\n");
          }
        });
    server.start();
  }

  private static void reply(HttpExchange exchange, int code, String type, String text)
      throws IOException {
    try (exchange) {
      if (!exchange.getRequestMethod().equals("GET")) {
        exchange.sendResponseHeaders(NOT_ALLOWED, -1);
        return;
      }
      byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
      exchange.getResponseHeaders().set("Content-Type", type);
      exchange.sendResponseHeaders(code, bytes.length);
      exchange.getResponseBody().write(bytes);
    }
  }

  int port() {
    return server.getAddress().getPort();
  }

  @Override
  public void close() {
    server.stop(0);
    threads.shutdown();
  }
}
