/**
 * Takes a running CUDA process off its GPU, puts it on disk, and brings it back: the typed states
 * of a CUDA process over the checkpoint functions of libcuda, and the seam to CRIU.
 */
@SuppressWarnings("module") // dev.gpuprocess.criu is built after this one
module dev.gpuprocess {
  requires static transitive org.jspecify;
  requires org.jnrproject.ffi;
  // jnr-ffi is an automatic module: nothing else would resolve what it needs of ASM.
  requires org.objectweb.asm;
  requires org.objectweb.asm.commons;
  requires org.objectweb.asm.util;
  // The jar has a copy of its own under another name, which uses the two after it.
  requires static com.google.gson;
  requires static java.sql;
  requires static jdk.unsupported;
  requires jdk.jfr;
  requires org.slf4j;

  exports dev.gpuprocess;
  exports dev.gpuprocess.cuda;
  exports dev.gpuprocess.image;
  exports dev.gpuprocess.error;
  exports dev.gpuprocess.options;
  exports dev.gpuprocess.report;
  exports dev.gpuprocess.slot;
  exports dev.gpuprocess.spi;
  // What the modules of this library share and users do not see.
  exports dev.gpuprocess.internal.launch to
      dev.gpuprocess.criu;
  exports dev.gpuprocess.internal.linux to
      dev.gpuprocess.criu;
  exports dev.gpuprocess.internal.proc to
      dev.gpuprocess.criu;
  exports dev.gpuprocess.internal.remote to
      dev.gpuprocess.criu;
  exports dev.gpuprocess.internal.text to
      dev.gpuprocess.criu;
  exports dev.gpuprocess.internal.time to
      dev.gpuprocess.criu;

  // JNR's generated classes live in an unnamed module.
  opens dev.gpuprocess.internal.cuda;
  opens dev.gpuprocess.internal.linux;
  // Gson fills the records of the manifest.
  opens dev.gpuprocess.image to
      com.google.gson;
  opens dev.gpuprocess.internal.image to
      com.google.gson;
  opens dev.gpuprocess.internal.manifest to
      com.google.gson;

  uses dev.gpuprocess.spi.CriuDriver;
}
