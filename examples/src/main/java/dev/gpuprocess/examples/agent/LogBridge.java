package dev.gpuprocess.examples.agent;

import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.slf4j.LoggerFactory;

/**
 * Sends what gRPC logs through the JDK's logging to the agent's log, in the same format. A
 * connection of a client that does not speak the protocol, such as a port scanner, costs no lines.
 */
final class LogBridge extends Handler {

  /** Their records below SEVERE are about single connections. */
  private static final String CONNECTIONS = "io.grpc.netty";

  private static final SimpleFormatter FORMATTER = new SimpleFormatter();

  private LogBridge() {}

  /** Replaces the handlers of the JDK. */
  static synchronized void install() {
    Logger root = LogManager.getLogManager().getLogger("");
    for (Handler each : root.getHandlers()) {
      root.removeHandler(each);
    }
    root.addHandler(new LogBridge());
  }

  @Override
  public void publish(LogRecord record) {
    String name = String.valueOf(record.getLoggerName());
    org.slf4j.Logger log = LoggerFactory.getLogger(name);
    String text = FORMATTER.formatMessage(record);
    Throwable thrown = record.getThrown();
    int level = record.getLevel().intValue();
    if (level >= Level.SEVERE.intValue()) {
      log.error(text, thrown);
    } else if (name.startsWith(CONNECTIONS) || level < Level.INFO.intValue()) {
      log.debug(text, thrown);
    } else if (level >= Level.WARNING.intValue()) {
      log.warn("{}{}", text, thrown == null ? "" : ": " + thrown);
    } else {
      log.info("{}{}", text, thrown == null ? "" : ": " + thrown);
    }
  }

  @Override
  public void flush() {}

  @Override
  public void close() {}
}
