#include "model/text/post_processor_json.hpp"

#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;

class PostProcessorReader {
 public:
  explicit PostProcessorReader(bool encoder) : encoder_(encoder) {}

  void read(const JsonKeys& part) {
    const std::string type = part.text("type");
    if (type == "Sequence") {
      read_sequence(part);
    } else if (type == "TemplateProcessing") {
      read_template(part);
    } else if (encoder_ && (type == "BertProcessing" || type == "RobertaProcessing")) {
      result_ = {true, token_of_pair(part, "cls"), token_of_pair(part, "sep")};
    } else if (type != "ByteLevel") {
      fail(ErrorCode::unsupported,
           "{}: {}: the post_processor '{}' is not supported; supported: ByteLevel, "
           "TemplateProcessing{} and a Sequence of these",
           part.source(), part.name_of_key(""), type,
           encoder_ ? ", BertProcessing, RobertaProcessing" : "");
    }
  }

  PostProcessor result() && { return std::move(result_); }

 private:
  static const Json& list_of(const JsonKeys& part, const char* key) {
    const Json* list = part.find(key);
    if (list == nullptr || !list->is_array()) {
      part.wrong_kind(key, "an array", list == nullptr ? Json() : *list);
    }
    return *list;
  }

  void read_sequence(const JsonKeys& part) {
    const Json& steps = list_of(part, "processors");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string path = fmt::format("{}[{}]", part.name_of_key("processors"), i);
      read(JsonKeys(steps[i], part.source(), path));
    }
  }

  // The text, with at most one special token before it and, for an encoder, one after it.
  void read_template(const JsonKeys& part) {
    const Json& single = list_of(part, "single");
    const auto is = [&](std::size_t i, const char* kind) {
      return i < single.size() && single[i].is_object() && single[i].contains(kind);
    };
    const auto special = [&](std::size_t i) {
      const std::string path = fmt::format("single[{}].SpecialToken", i);
      return JsonKeys(single[i]["SpecialToken"], part.source(), part.name_of_key(path)).text("id");
    };
    result_ = {.defines_frame = true, .before = {}, .after = {}};
    std::size_t at = 0;
    if (is(at, "SpecialToken")) result_.before = special(at++);
    const bool has_text = is(at++, "Sequence");
    if (encoder_ && has_text && is(at, "SpecialToken")) result_.after = special(at++);
    if (!has_text || at != single.size()) {
      fail(ErrorCode::unsupported,
           "{}: {}.single must be one special token and the text{}, or the text alone; {} is not "
           "supported",
           part.source(), part.name_of_key(""), encoder_ ? ", with at most one after it" : "",
           json_excerpt(Json(json_text(single)), 300));
    }
  }

  // A token and its id: ["[SEP]", 102].
  static std::string token_of_pair(const JsonKeys& part, const char* key) {
    const Json& pair = list_of(part, key);
    if (pair.size() != 2 || !pair[0].is_string()) {
      part.wrong_kind(key, "a token and its id", pair);
    }
    return pair[0].get<std::string>();
  }

  bool encoder_;
  PostProcessor result_;
};

}  // namespace

PostProcessor read_post_processor(const JsonKeys& part, bool encoder) {
  PostProcessorReader reader(encoder);
  reader.read(part);
  return std::move(reader).result();
}

}  // namespace clora
