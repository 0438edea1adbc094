package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Stranger;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Root writes an image below a directory of another user. */
@RequiresRoot("writes below a directory of another user")
@Timeout(120)
class PlaceOfOthersTest {

  private static final int MANY = 60;

  private Stranger stranger;

  @BeforeEach
  void prepare() {
    stranger = Stranger.create();
  }

  @AfterEach
  void remove() {
    stranger.close();
  }

  @Test
  void linksOfTheUserAreNotFollowed() throws IOException {
    stranger.run("ln -s \"$0\" link; mkdir real; ln -s \"$0\" real/link", stranger.vault());
    for (String path : List.of("link/image", "link/new/image", "real/link/image", "link/.")) {
      ImageException e =
          assertThrows(
              ImageException.class,
              () -> TestImages.publish(stranger.home().resolve(path), null),
              path);
      assertEquals(List.of(), stranger.intruders(), path);
      assertTrue(e.getMessage().contains("is a symbolic link of user 65534"), e.getMessage());
    }
  }

  @Test
  void linksOfRootAreFollowed() throws IOException {
    Path link = stranger.home().resolveSibling("link");
    Files.createSymbolicLink(link, stranger.vault());
    ImageDirectory image = TestImages.publish(link.resolve("new/image"), null);
    assertEquals(stranger.vault().resolve("new/image"), image.path());
    image.verify();
  }

  @Test
  void exchangeOfADirectoryAndALinkGainsNothing() throws Exception {
    stranger.run("mkdir place; ln -s \"$0\" other", stranger.vault());
    Process exchange =
        stranger.start(
            "exec perl -e 'while (1) { rename \"place\", \"away\"; rename \"other\", \"place\";"
                + " rename \"place\", \"other\"; rename \"away\", \"place\"; }'");
    int made = 0;
    try {
      for (int i = 0; i < MANY || made == 0; i++) {
        try {
          TestImages.publish(stranger.home().resolve("place/image" + i), null);
          made++;
        } catch (ImageException refused) {
          assertTrue(exchange.isAlive(), "nothing was exchanged");
        }
      }
    } finally {
      exchange.destroyForcibly().waitFor();
    }
    assertEquals(List.of(), stranger.intruders());
  }
}
