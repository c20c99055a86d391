// json_of() of value_text.hpp.
#include <algorithm>

#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

void escape_unicode(std::int32_t c, std::string& out) {
  if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", c);
  } else {
    const std::int32_t v = c - 0x10000;
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF));
  }
}

void escape(std::int32_t c, std::string_view raw, bool ensure_ascii, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    default:
      break;
  }
  if ((c >= 0 && c < 0x20) || (ensure_ascii && c > 0x7E)) {
    escape_unicode(c, out);
  } else {
    out += raw;
  }
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, WorkBudget& budget) : style_(style), budget_(budget) {
    item_ = style.separators ? style.separators->first : Text(style.indent ? "," : ", ");
    key_ = style.separators ? style.separators->second : Text(": ");
  }

  Text write(const Value& value) {
    add(value);
    return std::move(out_);
  }

 private:
  void add(const Value& value) {
    budget_.text(8);
    if (const Text* text = value.text()) {
      add_quoted(*text);
    } else if (const List* list = value.list()) {
      add_list(*list);
    } else if (const Dict* dict = value.dict()) {
      add_dict(*dict);
    } else {
      out_.append(plain(value));
    }
  }

  static std::string plain(const Value& value) {
    if (value.is_none()) return "null";
    if (const bool* b = value.boolean()) return *b ? "true" : "false";
    if (const std::int64_t* i = value.integer()) return std::to_string(*i);
    if (const double* d = value.real()) {
      const std::string text = text_of_real(*d);
      return text == "nan"    ? "NaN"
             : text == "inf"  ? "Infinity"
             : text == "-inf" ? "-Infinity"
                              : text;
    }
    fail(ErrorCode::invalid_argument, "tojson: a value of type {} has no JSON form{}{}",
         value.kind_name(), value.is_undefined() ? ": " : "",
         value.is_undefined() ? value.undefined_what() : "");
  }

  void add_quoted(const Text& text) {
    budget_.text(text.size());
    // The quotes have the text's origin: in a text of an input they are not the template's.
    const Origin origin = text.first_origin();
    out_.append("\"", origin);
    out_.append(text.mapped([this](std::int32_t c, std::string_view raw, std::string& out) {
      escape(c, raw, style_.ensure_ascii, out);
    }));
    out_.append("\"", origin);
  }

  void add_list(const List& list) {
    if (list.items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(item_);
      new_line();
      add(list.items[i]);
    }
    --level_;
    new_line();
    out_.append("]");
  }

  void add_dict(const Dict& dict) {
    if (dict.entries.empty()) return out_.append("{}");
    out_.append("{");
    ++level_;
    bool first = true;
    for (const auto* entry : entries_of(dict)) {
      if (!first) out_.append(item_);
      first = false;
      new_line();
      add_key(entry->first);
      out_.append(key_);
      add(entry->second);
    }
    --level_;
    new_line();
    out_.append("}");
  }

  void add_key(const Value& key) {
    if (const Text* text = key.text()) return add_quoted(*text);
    require(key.is_none() || key.is_number(), "tojson: a key must be a text or a number, got {}",
            key.kind_name());
    add_quoted(Text(plain(key)));
  }

  std::vector<const std::pair<Value, Value>*> entries_of(const Dict& dict) const {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (!style_.sort_keys) return entries;
    const auto name = [](const auto* entry) {
      const Text* text = entry->first.text();
      return text == nullptr ? std::string_view() : std::string_view(text->bytes());
    };
    std::ranges::stable_sort(entries, {}, name);
    return entries;
  }

  void new_line() {
    if (!style_.indent) return;
    out_.append("\n");
    budget_.text(1 + level_ * style_.indent->size());
    for (std::size_t i = 0; i < level_; ++i) out_.append(*style_.indent);
  }

  const JsonStyle& style_;
  WorkBudget& budget_;
  Text item_, key_, out_;
  std::size_t level_ = 0;
};

}  // namespace

Text json_of(const Value& value, const JsonStyle& style, WorkBudget& budget) {
  return JsonWriter(style, budget).write(value);
}

}  // namespace clora::jinja
