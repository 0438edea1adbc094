/**
 * Dumps and restores process trees through CRIU; the provider of {@link
 * dev.gpuprocess.spi.CriuDriver}.
 */
module dev.gpuprocess.criu {
  requires transitive dev.gpuprocess;
  requires static transitive org.jspecify;
  requires org.jnrproject.ffi;
  requires org.jnrproject.posix;
  // jnr-ffi is an automatic module: nothing else would resolve what it needs of ASM.
  requires org.objectweb.asm;
  requires org.objectweb.asm.commons;
  requires org.objectweb.asm.util;
  // The jar has a copy of its own under another name, which needs the two modules after it.
  requires static com.google.protobuf;
  requires java.logging;
  requires jdk.unsupported;
  requires org.slf4j;

  exports dev.gpuprocess.criu;

  provides dev.gpuprocess.spi.CriuDriver with
      dev.gpuprocess.criu.RpcCriuDriver;
}
