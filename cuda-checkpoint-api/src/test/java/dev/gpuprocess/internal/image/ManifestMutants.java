package dev.gpuprocess.internal.image;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/**
 * Invalid manifests with a matching checksum: every field with invalid values, and texts that this
 * library never writes.
 */
final class ManifestMutants {

  private static final List<String> PATHS =
      List.of(
          "",
          "/etc/passwd",
          "../../etc/passwd",
          "criu/../manifest.json",
          "criu/..",
          "criu/.",
          "criu/",
          "criu",
          "criu//cgroup.img",
          "criu/./cgroup.img",
          "criu/a/b.img",
          "criu/.hidden",
          "criu/a\u0000.img",
          "criu/a\n.img",
          "criu/%2e%2e",
          "criu\\cgroup.img",
          "criu/" + "a".repeat(300),
          "manifest.json");

  private static final List<String> SUMS =
      List.of("", "0", "0000000g", "ABCDEF01", "000000000", "-0000001");

  private static final List<String> NUMBERS =
      List.of("-1", "1.5", "1e400", "-9223372036854775809", "1e2147483647", "NaN", "Infinity");

  /** Deeper than the limit of the JSON reader; indentation makes the text grow quadratically. */
  private static final int DEEP = 300;

  private final List<Mutant> all = new ArrayList<>();
  private final String original;

  private ManifestMutants(byte[] original) {
    this.original = new String(original, StandardCharsets.UTF_8);
  }

  static List<Mutant> of(byte[] original) {
    ManifestMutants mutants = new ManifestMutants(original);
    JsonPaths.forEachValue(JsonPaths.parse(mutants.original), mutants::changeValue);
    JsonPaths.forEachValue(
        JsonPaths.parse(mutants.original),
        (path, value) -> {
          if (value instanceof JsonObject object) {
            object.keySet().forEach(key -> mutants.changeKey(path, key));
          }
        });
    mutants.changeText();
    mutants.all.add(
        new Mutant(
            "manifest: not UTF-8",
            (image, outside) ->
                TestImages.forge(image, mutants.original.getBytes(StandardCharsets.ISO_8859_1))));
    return mutants.all;
  }

  private void changeValue(String path, JsonElement value) {
    boolean text = value instanceof JsonPrimitive primitive && primitive.isString();
    boolean truth = value instanceof JsonPrimitive primitive && primitive.isBoolean();
    boolean anyText =
        path.matches(
            "\\.(driverVersion|criuVersion|kernel|machine\\.cpu|machine\\.gpus\\..*)"
                + "|\\.commandLine\\[\\d+]");
    boolean anyList = path.equals(".commandLine");
    List<JsonElement> impossible = new ArrayList<>();
    impossible.add(JsonNull.INSTANCE);
    impossible.add(nested(DEEP));
    NUMBERS.forEach(number -> impossible.add(JsonPaths.raw(number)));
    if (!anyText) {
      impossible.add(new JsonPrimitive("../../etc/passwd"));
      impossible.add(new JsonPrimitive("x".repeat(5_000)));
    }
    if (!text) {
      impossible.add(new JsonPrimitive("42"));
    }
    if (!truth) {
      impossible.add(new JsonPrimitive(true));
    }
    if (value instanceof JsonArray list) {
      if (!anyList) {
        impossible.add(doubled(list));
      }
    } else {
      impossible.add(new JsonArray());
    }
    if (!isAboutAnyGpu(path)) {
      impossible.add(new JsonObject());
    }
    if (path.endsWith(".path") && !path.startsWith(".machine")) {
      PATHS.forEach(bad -> impossible.add(new JsonPrimitive(bad)));
    }
    if (path.contains(".chunks[")) {
      SUMS.forEach(bad -> impossible.add(new JsonPrimitive(bad)));
    }
    for (JsonElement bad : impossible) {
      if (!bad.equals(value) && !path.isEmpty()) {
        json(path + " = " + shortened(bad), root -> JsonPaths.replace(root, path, bad));
      }
    }
  }

  private static boolean isAboutAnyGpu(String path) {
    return path.equals(".gpuBytes") || path.equals(".machine.gpus");
  }

  private static String shortened(JsonElement value) {
    String text = value.toString();
    return text.substring(0, Math.min(30, text.length()));
  }

  private void changeKey(String path, String key) {
    // Only GPUs, and in images of earlier versions the machine, may be missing.
    if (!isAboutAnyGpu(path) && !key.equals("machine")) {
      json(path + " without " + key, root -> edited(root, path, object -> object.remove(key)));
    }
    json(
        path + " with " + key + " renamed",
        root -> edited(root, path, object -> object.add(key + "2", object.remove(key))));
    json(
        path + " with one more after " + key,
        root -> edited(root, path, object -> object.add(key + "x", object.get(key))));
    String quoted = "\"" + key + "\":";
    text(
        path + " with " + key + " twice",
        whole -> whole.replace(quoted, quoted + " null, " + quoted));
    text(
        path + " with " + key + " null first",
        whole -> whole.replaceFirst("\\{", "{" + quoted + " null,"));
  }

  private interface Edit {
    void on(JsonObject object);
  }

  private static JsonElement edited(JsonElement root, String path, Edit edit) {
    edit.on(JsonPaths.at(root, path).getAsJsonObject());
    return root;
  }

  private void changeText() {
    Map<String, UnaryOperator<String>> changes = new LinkedHashMap<>();
    changes.put("cut", text -> text.substring(0, text.length() / 2));
    changes.put("last bracket missing", text -> text.substring(0, text.length() - 2));
    changes.put("line feed missing", text -> text.substring(0, text.length() - 1));
    changes.put("more behind it", text -> text + "{}");
    changes.put("blank behind it", text -> text + " ");
    changes.put("blank before it", text -> " " + text);
    changes.put("twice", text -> text + text);
    changes.put("byte order mark", text -> "\ufeff" + text);
    changes.put("comment", text -> text.replaceFirst("\\{", "{ // comment\n"));
    changes.put("carriage returns", text -> text.replace("\n", "\r\n"));
    changes.put("single quotes", text -> text.replace('"', '\''));
    changes.put("no quotes", text -> text.replace("\"pid\"", "pid"));
    changes.put("comma too many", text -> text.replace("\n}", ",\n}"));
    changes.put("semicolons", text -> text.replace(",\n", ";\n"));
    changes.put("array around it", text -> "[" + text + "]");
    changes.put("upper case", text -> text.replace("pid", "PID"));
    changes.put("nul", text -> text.replace("4.2.1", "4.2.1\u0000"));
    changes.put("lone surrogate", text -> text.replace("4.2.1", "\\ud800"));
    changes.put("escaped", text -> text.replace("4.2.1", "\\u0034.2.1"));
    changes.put("deep arrays", text -> "[".repeat(1_000_000));
    changes.put("deep objects", text -> "{\"formatVersion\":".repeat(300_000));
    changes.put("deep unknown", text -> text.replaceFirst("1,", "1,\"a\":" + "[".repeat(500_000)));
    changes.put("deep value", text -> text.replace("4242,", "[".repeat(500_000)));
    changes.put("hexadecimal", text -> text.replace("4242", "0x1092"));
    changes.put("leading zero", text -> text.replace("4242", "04242"));
    changes.put("plus", text -> text.replace("4242", "+4242"));
    changes.put("fraction of nothing", text -> text.replace("4242", "4242.0"));
    changes.put("endless digits", text -> text.replace("4242", "4".repeat(500_000)));
    changes.put("other version", text -> text.replace("ion\": 1,", "ion\": 9,"));
    changes.put("version of 64 bits", text -> text.replace("ion\": 1,", "ion\": 4294967297,"));
    changes.put("many files", text -> text.replace("files\": [", "files\": [" + many("{}")));
    changes.put("many chunks", text -> text.replace("chunks\": [", "chunks\": [" + many("\"\"")));
    changes.put("many arguments", text -> text.replace("eline\": [", "eline\": [" + many("\"\"")));
    changes.put("too large", text -> text + " ".repeat(ManifestFile.MAX_BYTES));
    changes.put("empty", text -> "");
    changes.forEach((name, change) -> text(": " + name, change));
  }

  private static String many(String value) {
    return (value + ",").repeat(300_000);
  }

  private void text(String name, UnaryOperator<String> change) {
    all.add(
        new Mutant(
            "manifest" + name,
            (image, outside) ->
                TestImages.forge(image, change.apply(original).getBytes(StandardCharsets.UTF_8))));
  }

  private void json(String name, UnaryOperator<JsonElement> change) {
    text(name, whole -> JsonPaths.write(change.apply(JsonPaths.parse(whole))));
  }

  private static JsonElement nested(int depth) {
    JsonArray inner = new JsonArray();
    for (int i = 1; i < depth; i++) {
      JsonArray outer = new JsonArray();
      outer.add(inner);
      inner = outer;
    }
    return inner;
  }

  private static JsonArray doubled(JsonArray list) {
    JsonArray twice = list.deepCopy();
    twice.addAll(list);
    return twice;
  }
}
