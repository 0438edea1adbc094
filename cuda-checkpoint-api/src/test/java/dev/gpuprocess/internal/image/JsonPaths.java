package dev.gpuprocess.internal.image;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** Values in JSON by paths such as {@code .files[3].path}; the empty path is the whole document. */
final class JsonPaths {

  private static final Gson GSON =
      new GsonBuilder().serializeNulls().disableHtmlEscaping().setPrettyPrinting().create();

  /** Visits a value. */
  interface Visitor {
    void see(String path, JsonElement value);
  }

  private JsonPaths() {}

  static JsonElement parse(String text) {
    return JsonParser.parseString(text);
  }

  /** Writes as manifests are written. */
  static String write(JsonElement value) {
    return GSON.toJson(value).replaceAll("\"@raw (.*?)@\"", "$1") + "\n";
  }

  /** A value that {@link #write} writes unchanged, even if it is not JSON. */
  static JsonElement raw(String text) {
    return new JsonPrimitive("@raw " + text + "@");
  }

  /** Visits every value; of a list the first, the middle and the last element. */
  static void forEachValue(JsonElement root, Visitor visitor) {
    forEachValue(root, "", visitor);
  }

  private static void forEachValue(JsonElement value, String path, Visitor visitor) {
    visitor.see(path, value);
    if (value instanceof JsonObject object) {
      object.asMap().forEach((key, inner) -> forEachValue(inner, path + "." + key, visitor));
    } else if (value instanceof JsonArray array && !array.isEmpty()) {
      Set<Integer> some = new TreeSet<>(List.of(0, array.size() / 2, array.size() - 1));
      some.forEach(i -> forEachValue(array.get(i), path + "[" + i + "]", visitor));
    }
  }

  static JsonElement at(JsonElement root, String path) {
    if (path.isEmpty()) {
      return root;
    }
    int cut = cut(path);
    JsonElement parent = at(root, path.substring(0, cut));
    return isIndex(path, cut)
        ? parent.getAsJsonArray().get(index(path, cut))
        : parent.getAsJsonObject().get(path.substring(cut + 1));
  }

  static JsonElement replace(JsonElement root, String path, JsonElement value) {
    int cut = cut(path);
    JsonElement parent = at(root, path.substring(0, cut));
    if (isIndex(path, cut)) {
      parent.getAsJsonArray().set(index(path, cut), value);
    } else {
      parent.getAsJsonObject().add(path.substring(cut + 1), value);
    }
    return root;
  }

  private static int cut(String path) {
    return Math.max(path.lastIndexOf('.'), path.lastIndexOf('['));
  }

  private static boolean isIndex(String path, int cut) {
    return path.charAt(cut) == '[';
  }

  private static int index(String path, int cut) {
    return Integer.parseInt(path.substring(cut + 1, path.length() - 1));
  }
}
