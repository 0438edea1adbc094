package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A CRIU driver of another vendor, found by a service file. */
@Tag("jdk")
class ForeignCriuTest {

  /** The driver of the other vendor. */
  public static final class Foreign implements CriuDriver {

    @Override
    public String version() {
      return "99.0";
    }

    @Override
    public void check() {}

    @Override
    public DumpReport dump(DumpRequest request, DumpListener listener) {
      throw new AssertionError();
    }

    @Override
    public RestoreReport restore(RestoreRequest request, RestoreListener listener) {
      throw new AssertionError();
    }

    @Override
    public DumpedTree describe(Path images) {
      throw new AssertionError();
    }
  }

  @TempDir Path jar;
  private ClassLoader before;

  @BeforeEach
  void keepLoader() {
    before = Thread.currentThread().getContextClassLoader();
  }

  @AfterEach
  void putLoaderBack() {
    Thread.currentThread().setContextClassLoader(before);
  }

  private void bring(String provider) throws IOException {
    Path services = Files.createDirectories(jar.resolve("META-INF/services"));
    Files.writeString(services.resolve(CriuDriver.class.getName()), provider);
    Thread.currentThread()
        .setContextClassLoader(new URLClassLoader(new URL[] {jar.toUri().toURL()}, before));
  }

  @Test
  void isFoundAndUsed() throws IOException {
    bring(Foreign.class.getName());
    assertEquals("99.0", GpuCheckpoints.standard().criu().version());
  }

  @Test
  void isNamed_whenItCannotBeLoaded() throws IOException {
    bring("com.example.NotThere");
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.NO_CRIU,
            () -> GpuCheckpoints.standard().criu());
    assertTrue(e.getMessage().contains("com.example.NotThere"), e.getMessage());
  }

  @Test
  void isAskedFor_whenThereIsNone() {
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.NO_CRIU,
            () -> GpuCheckpoints.standard().criu());
    assertTrue(e.getMessage().contains("dev.gpuprocess:criu-driver"), e.getMessage());
  }

  @Test
  void isUsedWithoutASearch_whenItIsHandedIn() {
    CriuDriver driver = new Foreign();
    assertSame(driver, GpuCheckpoints.builder().criu(driver).build().criu());
  }
}
