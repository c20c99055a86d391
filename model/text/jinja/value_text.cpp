#include "model/text/jinja/value_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "model/text/utf8.hpp"

namespace clora::jinja {

namespace {

// Decimal digits and the exponent of the first one, as "d.ddde[+-]x".
std::string scientific(double value) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  return {buffer.data(), end.ptr};
}

std::string fixed(double value) {
  std::array<char, 400> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string text(buffer.data(), end.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string text_of_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const std::string text = scientific(value);
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return text;
  return fixed(value);
}

namespace {

// repr() of a text quotes it with ' unless only " avoids escapes.
class ReprWriter {
 public:
  explicit ReprWriter(WorkBudget& budget) : budget_(budget) {}

  Text write(const Value& value) {
    add(value);
    return std::move(out_);
  }

 private:
  void add(const Value& value) {
    budget_.step();
    if (const Text* text = value.text()) return add_quoted(*text);
    if (const List* list = value.list()) return add_list(*list);
    if (const Dict* dict = value.dict()) return add_dict(*dict);
    out_.append(plain(value));
  }

  static std::string plain(const Value& value) {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "None";
    if (const bool* b = value.boolean()) return *b ? "True" : "False";
    if (const std::int64_t* i = value.integer()) return std::to_string(*i);
    if (const double* d = value.real()) return text_of_real(*d);
    return fmt::format("<{}>", value.object()->name());
  }

  void add_quoted(const Text& text) {
    const std::string& bytes = text.bytes();
    const bool use_double =
        bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
    const char quote = use_double ? '"' : '\'';
    budget_.text(text.size());
    out_.append(std::string_view(&quote, 1));
    out_.append(text.mapped([quote](std::int32_t c, std::string_view raw, std::string& out) {
      escape(c, raw, quote, out);
    }));
    out_.append(std::string_view(&quote, 1));
  }

  static void escape(std::int32_t c, std::string_view raw, char quote, std::string& out) {
    if (c == '\\' || c == quote) {
      out.append("\\").append(raw);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c >= 0 && (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD)) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c > 0xA0 && is_python_white(c)) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += raw;
    }
  }

  void add_list(const List& list) {
    out_.append(list.is_tuple ? "(" : "[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(", ");
      add(list.items[i]);
    }
    if (list.is_tuple && list.items.size() == 1) out_.append(",");
    out_.append(list.is_tuple ? ")" : "]");
    budget_.text(2 * list.items.size() + 2);
  }

  void add_dict(const Dict& dict) {
    out_.append("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!first) out_.append(", ");
      first = false;
      add(key);
      out_.append(": ");
      add(value);
    }
    out_.append("}");
    budget_.text(4 * dict.entries.size() + 2);
  }

  WorkBudget& budget_;
  Text out_;
};

}  // namespace

Text repr_of(const Value& value, WorkBudget& budget) { return ReprWriter(budget).write(value); }

Text text_of(const Value& value, WorkBudget& budget) {
  if (const Text* text = value.text()) return *text;
  if (value.is_undefined()) return {};
  return repr_of(value, budget);
}

}  // namespace clora::jinja
