package dev.gpuprocess.internal.image;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Images that match their manifests, made by an attacker without the key. */
final class ForgedMutants {

  private ForgedMutants() {}

  /** A truncated memory image, or a page map that requires more. */
  static Mutant ofMemory(Random random) {
    int least = 1 + random.nextInt(40_000);
    boolean cut = random.nextBoolean();
    return new Mutant(
        cut ? "memory cut by " + least : "page map with " + least + " pages more",
        (image, outside) -> {
          if (cut) {
            Path memory = image.resolve("criu/pages-1.img");
            FileMutants.resize(memory, Files.size(memory) - least);
          } else {
            Files.write(
                image.resolve("criu/pagemap-4242.img"),
                new PageMapBytes(1)
                    .run(0x1000, TestImages.PAGES, PageMapBytes.PRESENT)
                    .run(0x1000000, least, PageMapBytes.PRESENT)
                    .bytes());
          }
          sumAgain(image, Checksum.CRC32C);
        });
  }

  /** A changed byte of a file, with new checksums. For an image with a key. */
  static Mutant ofContent(List<String> files, Random random) {
    String file = files.get(random.nextInt(files.size()));
    long seed = random.nextLong();
    Checksum checksum = random.nextBoolean() ? Checksum.SHA256 : Checksum.CRC32C;
    return new Mutant(
        file + ": byte replaced and summed again as " + checksum + " " + Long.toHexString(seed),
        (image, outside) -> {
          byte[] content = Files.readAllBytes(image.resolve(file));
          Files.write(image.resolve(file), FileMutants.replaceByte(content, new Random(seed)));
          sumAgain(image, checksum);
        });
  }

  private static void sumAgain(Path image, Checksum checksum) {
    List<ChecksummedFile> files = TestImages.sum(image, checksum);
    TestImages.forge(image, ManifestFile.write(TestImages.manifest(files)));
  }

  /** Every field with another valid value. For an image with a key. */
  static List<Mutant> ofFields(byte[] original) {
    Map<String, JsonElement> possible = new LinkedHashMap<>();
    possible.put(".pid", new JsonPrimitive(4243));
    possible.put(".startTicks", new JsonPrimitive(1));
    possible.put(".created", new JsonPrimitive("2027-01-01T00:00:00Z"));
    possible.put(".kernel", new JsonPrimitive("6.18.45"));
    possible.put(".criuVersion", new JsonPrimitive("4.3"));
    possible.put(".driverVersion", new JsonPrimitive(""));
    possible.put(".cudaVersion", new JsonPrimitive(0));
    possible.put(".commandLine[0]", new JsonPrimitive("/bin/true"));
    possible.put(".commandLine", new JsonArray());
    possible.put(".gpuBytes", new JsonObject());
    possible.put(".options.criu", new JsonArray());
    possible.put(".options.criu[0]", new JsonPrimitive("tcp-close"));
    possible.put(".options.criu[6]", new JsonPrimitive("root=/"));
    List<Mutant> all = new ArrayList<>();
    possible.forEach(
        (path, value) -> {
          JsonElement root = JsonPaths.parse(new String(original, StandardCharsets.UTF_8));
          String forged = JsonPaths.write(JsonPaths.replace(root, path, value));
          all.add(
              new Mutant(
                  path + " = " + value + ", summed again",
                  (image, outside) ->
                      TestImages.forge(image, forged.getBytes(StandardCharsets.UTF_8))));
        });
    return all;
  }

  /** Every digit of the signature. For an image with a key. */
  static List<Mutant> ofCode() {
    List<Mutant> all = new ArrayList<>();
    for (int i = 0; i < 64; i++) {
      int digit = i;
      all.add(
          new Mutant(
              "digit " + digit + " of the code",
              (image, outside) -> {
                Path code = image.resolve(ManifestFile.CODE_NAME);
                byte[] text = Files.readAllBytes(code);
                text[digit] = (byte) (text[digit] == '0' ? '1' : '0');
                Files.write(code, text);
              }));
    }
    return all;
  }
}
