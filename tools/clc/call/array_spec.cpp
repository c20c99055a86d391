#include "tools/clc/call/array_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/fail.hpp"
#include "tools/clc/call/npy.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

// The finaliser of splitmix64: every bit of the result depends on every bit of x.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

std::uint64_t random_word(std::uint64_t seed, std::int64_t i) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;
  return mixed(mixed(seed * kGolden + 1) + (static_cast<std::uint64_t>(i) + 1) * kGolden);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    parts.emplace_back(trimmed(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return parts;
}

// The parser of one --arg; its messages quote the text.
class ArgumentText {
 public:
  explicit ArgumentText(std::string_view text) : text_(text) {}

  CallArgument parse() {
    const std::size_t equals = text_.find('=');
    const std::string name(trimmed(text_.substr(0, equals)));
    if (equals == std::string_view::npos || name.empty() || name.find('(') != std::string::npos) {
      mistake("must be NAME=VALUE, as in 'n=768' or 'x=rand(f32,4x768)'");
    }
    return {name, value_of(trimmed(text_.substr(equals + 1)))};
  }

 private:
  template <class... Args>
  [[noreturn]] void mistake(fmt::format_string<Args...> format, Args&&... args) const {
    throw UsageError(fmt::format("--arg '{}': ", text_) +
                     fmt::format(format, std::forward<Args>(args)...));
  }

  ArgumentValue value_of(std::string_view text) {
    if (text.empty()) mistake("a value is missing after '='");
    if (text.ends_with(".npy")) return file_spec({std::string(text)});
    if (text == "null") return NullMemory{};
    const std::size_t open = text.find('(');
    if (open == std::string_view::npos) return ScalarSpec{"", {std::string(text)}};
    if (!text.ends_with(')')) mistake("')' is missing at the end");
    const std::string word(trimmed(text.substr(0, open)));
    parts_ = split(text.substr(open + 1, text.size() - open - 2));
    if (word == "local") return local_memory();
    if (word == "npy") return file_spec(parts_);
    if (word == "same") return shared_memory();
    if (const auto kind = kind_of(word)) return array_spec(*kind);
    return scalar_spec(word);
  }

  static std::optional<ArraySpec::Kind> kind_of(const std::string& word) {
    using Kind = ArraySpec::Kind;
    if (word == "rand") return Kind::random;
    if (word == "zeros") return Kind::zeros;
    if (word == "const") return Kind::constant;
    if (word == "range") return Kind::range;
    if (word == "out") return Kind::out;
    return std::nullopt;
  }

  ScalarSpec scalar_spec(const std::string& word) {
    const std::string element = word.substr(0, word.find_first_of("0123456789"));
    if (!word.empty() && !element_type(element)) {
      const std::string meant =
          suggestion_for(word, {"rand", "zeros", "const", "range", "out", "npy", "same", "local"});
      mistake("'{}' must be rand, zeros, const, range, out, npy, same, local or a type{}", word,
              meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
    }
    return {word, parts_};
  }

  LocalMemory local_memory() {
    const auto bytes = bits_of_text(ElementType::u32, parts_.front());
    if (parts_.size() != 1 || !bytes || *bytes == 0) {
      mistake("local takes a size in bytes, as in local(1024)");
    }
    return {static_cast<std::size_t>(*bytes)};
  }

  SharedMemory shared_memory() {
    const auto offset = parts_.size() < 2 ? 0 : bits_of_text(ElementType::u64, parts_[1]);
    if (parts_.size() > 2 || parts_.front().empty() || !offset) {
      mistake("same takes an array and optionally an offset in bytes, as in same(x,4096)");
    }
    return {parts_.front(), static_cast<std::size_t>(*offset), std::nullopt, {}};
  }

  ArraySpec file_spec(const std::vector<std::string>& words) {
    ArraySpec spec;
    spec.kind = ArraySpec::Kind::file;
    spec.file = words.front();
    spec.as_bf16 = words.size() == 2 && words[1] == "bf16";
    if (words.front().empty() || words.size() > (spec.as_bf16 ? 2U : 1U)) {
      mistake("must be npy(FILE) or npy(FILE,bf16)");
    }
    return spec;
  }

  ArraySpec array_spec(ArraySpec::Kind kind) {
    if (parts_.size() < 2) mistake("a type and a shape are required, as in (f32,4x768)");
    ArraySpec spec;
    spec.kind = kind;
    const auto type = element_type(parts_[0]);
    if (!type) mistake("'{}' is not a type; the types are {}", parts_[0], element_type_names());
    spec.type = *type;
    spec.shape = shape_of(parts_[1]);
    const std::vector<std::string> more(parts_.begin() + 2, parts_.end());
    if (kind == ArraySpec::Kind::random) {
      read_random(spec, more);
    } else if (kind == ArraySpec::Kind::range) {
      read_range(spec, more);
    } else if (kind == ArraySpec::Kind::constant) {
      if (more.size() != 1) mistake("const takes one value, as in const(f32,4x768,1.5)");
      spec.constant_bits = bits(spec.type, more[0]);
    } else if (!more.empty()) {
      mistake("unexpected '{}' after the shape", more[0]);
    }
    return spec;
  }

  Dimensions shape_of(const std::string& text) {
    Dimensions shape;
    std::int64_t elements = 1;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t x = std::min(text.find('x', begin), text.size());
      std::int64_t size = 0;
      const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + x, size);
      if (error != std::errc() || stop != text.data() + x || size < 1) {
        mistake("'{}' is not a shape; write 768 or 4x768", text);
      }
      if (size > kMaxElements / elements) mistake("{} has too many elements", text);
      elements *= size;
      shape.push_back(size);
      begin = x + 1;
    }
    return shape;
  }

  std::uint64_t bits(ElementType type, const std::string& text) {
    const auto bits = bits_of_text(type, text);
    if (!bits) mistake("'{}' is not a valid {}", text, name_of(type));
    return *bits;
  }

  double number(const std::string& text) {
    return value_of_bits(ElementType::f64, bits(ElementType::f64, text));
  }

  void read_random(ArraySpec& spec, const std::vector<std::string>& more) {
    for (const std::string& each : more) {
      const std::size_t equals = std::min(each.find('='), each.size());
      const std::string key = each.substr(0, equals);
      const std::string value = equals == each.size() ? "" : each.substr(equals + 1);
      if (key == "seed") {
        spec.seed = bits(ElementType::u64, value);
      } else if (key == "min") {
        spec.first = number(value);
      } else if (key == "max") {
        spec.second = number(value);
      } else {
        mistake("'{}' must be seed=N, min=A or max=B", each);
      }
    }
    const double least = spec.first.value_or(is_float(spec.type) ? -1 : 0);
    const double most = spec.second.value_or(is_float(spec.type) ? 1 : 100);
    if (!(least <= most)) mistake("min={} is above max={}", least, most);
    spec.first = least;
    spec.second = most;
  }

  void read_range(ArraySpec& spec, const std::vector<std::string>& more) {
    if (more.size() > 2) mistake("range takes at most a start and a step");
    const auto without_key = [](const std::string& text, std::string_view key) {
      return text.starts_with(key) ? text.substr(key.size()) : text;
    };
    spec.first = more.empty() ? 0 : number(without_key(more[0], "start="));
    spec.second = more.size() < 2 ? 1 : number(without_key(more[1], "step="));
  }

  std::string_view text_;
  std::vector<std::string> parts_;
};

void fill_random(HostArray& array, const ArraySpec& spec) {
  const double least = spec.first.value_or(0), most = spec.second.value_or(1);
  for (std::int64_t i = 0; i < array.elements(); ++i) {
    const std::uint64_t word = random_word(spec.seed, i);
    if (is_float(spec.type)) {
      const double unit = std::ldexp(static_cast<double>(word >> 40U), -24);
      array.set_bits(i, bits_of_value(spec.type, least + unit * (most - least)));
    } else {
      const double unit = std::ldexp(static_cast<double>(word >> 11U), -53);
      const double value = std::floor(least + unit * (most - least + 1));
      array.set_bits(i, bits_of_value(spec.type, value));
    }
  }
}

void require_as_captured(const ArraySpec& spec, const HostArray& array) {
  if (array.type == spec.type && array.shape == spec.shape) return;
  const HostArray wanted{spec.type, spec.shape, {}};
  fail(ErrorCode::invalid_file, "{} must contain {} to match call.json, got {}", spec.file.string(),
       wanted.text(), array.text());
}

HostArray array_of_file(const ArraySpec& spec) {
  HostArray array = read_npy(spec.file);
  if (spec.captured && array.type == ElementType::u16 && spec.as_bf16) array.type = spec.type;
  if (spec.captured) require_as_captured(spec, array);
  if (!spec.as_bf16 || spec.captured) return array;
  if (array.type != ElementType::u16) {
    throw UsageError(fmt::format("npy({0},bf16): {0} must contain <u2, 16 bits each, got {1}",
                                 spec.file.string(), array.text()));
  }
  array.type = ElementType::bf16;
  return array;
}

}  // namespace

CallArgument parse_argument(std::string_view text) { return ArgumentText(text).parse(); }

HostArray array_of(const ArraySpec& spec) {
  if (spec.kind == ArraySpec::Kind::file) return array_of_file(spec);
  HostArray array = HostArray::of_zeros(spec.type, spec.shape);
  if (spec.kind == ArraySpec::Kind::random) fill_random(array, spec);
  if (spec.kind == ArraySpec::Kind::out) fill_out(array, OutFill::nan);
  if (spec.kind == ArraySpec::Kind::constant) {
    for (std::int64_t i = 0; i < array.elements(); ++i) array.set_bits(i, spec.constant_bits);
  }
  if (spec.kind == ArraySpec::Kind::range) {
    for (std::int64_t i = 0; i < array.elements(); ++i) {
      const double value = *spec.first + static_cast<double>(i) * *spec.second;
      array.set_bits(i, bits_of_value(spec.type, value));
    }
  }
  return array;
}

std::uint64_t fill_bits(ElementType type, OutFill fill) {
  constexpr std::uint64_t kEachByte = 0x0101010101010101U;
  if (fill == OutFill::number) return kEachByte * 0x3DU;
  switch (type) {
    case ElementType::f16:
      return 0x7EA5U;
    case ElementType::bf16:
      return 0x7FE5U;
    case ElementType::f32:
      return 0x7FC0A5A5U;
    case ElementType::f64:
      return 0x7FF80000A5A5A5A5U;
    default:
      return kEachByte * 0xA5U;
  }
}

void fill_out(HostArray& array, OutFill fill) {
  const std::uint64_t bits = fill_bits(array.type, fill);
  for (std::int64_t i = 0; i < array.elements(); ++i) array.set_bits(i, bits);
}

}  // namespace clora
