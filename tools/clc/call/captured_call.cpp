#include "tools/clc/call/captured_call.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"
#include "tools/clc/kernel_file/option_words.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr const char* kFile = "call.json";

// The length of call.json is that of the build options, in practice a few kilobytes.
constexpr JsonLimits kLimits{.bytes = std::size_t{16} << 20U,
                             .depth = 8,
                             .string_bytes = std::size_t{1} << 20U,
                             .unique_keys = true};
constexpr std::size_t kMaxArguments = 1024;
constexpr std::size_t kMaxDimensions = 64;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

std::size_t size_in(const JsonKeys& object, std::string_view key) {
  const std::int64_t number = object.integer(key);
  if (number < 0) object.wrong_kind(key, "an integer of 0 or more", json(number));
  return static_cast<std::size_t>(number);
}

const json& array_at(const JsonKeys& object, std::string_view key, std::size_t most) {
  const json* value = object.find(key);
  if (value == nullptr || !value->is_array() || value->size() > most) {
    object.wrong_kind(key, fmt::format("a list of at most {}", most),
                      value == nullptr ? json() : *value);
  }
  return *value;
}

ElementType type_in(const JsonKeys& argument) {
  const std::string name = argument.text("type");
  const auto type = element_type(name);
  if (!type) argument.wrong_kind("type", "one of " + element_type_names(), json(name));
  return *type;
}

Dimensions shape_in(const JsonKeys& argument) {
  Dimensions shape;
  std::int64_t elements = 1;
  for (const json& size : array_at(argument, "shape", kMaxDimensions)) {
    const auto most = static_cast<std::uint64_t>(kMaxElements / elements);
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() == 0 ||
        size.get<std::uint64_t>() > most) {
      argument.wrong_kind(
          "shape",
          fmt::format("sizes of at least 1, with at most {} elements in total", kMaxElements),
          size);
    }
    shape.push_back(size.get<std::int64_t>());
    elements *= shape.back();
  }
  return shape;
}

GridSize grid_in(const JsonKeys& call, std::string_view key) {
  GridSize grid{};
  const json& sizes = array_at(call, key, grid.size());
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const bool is_size = i < sizes.size() && sizes[i].is_number_unsigned() &&
                         sizes[i].get<std::uint64_t>() <= std::uint64_t{1} << 40U;
    if (!is_size) call.wrong_kind(key, "three sizes of at most 2^40", sizes);
    grid.at(i) = sizes[i].get<std::size_t>();
  }
  return grid;
}

// A file of the folder. Rejects a name that would lead out of it.
Path file_in(const JsonKeys& argument, std::string_view key, const Path& folder) {
  const std::string name = argument.text(key);
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    argument.wrong_kind(key, "the name of a file in the same folder", json(name));
  }
  return folder / name;
}

ArraySpec array_in(const JsonKeys& argument, const Path& file) {
  ArraySpec spec;
  spec.kind = ArraySpec::Kind::file;
  spec.type = type_in(argument);
  spec.shape = shape_in(argument);
  spec.file = file;
  spec.as_bf16 = spec.type == ElementType::bf16;
  spec.captured = true;
  return spec;
}

ValueBytes bytes_in(const JsonKeys& argument) {
  const std::string text = argument.text("bytes");
  ValueBytes value;
  for (std::size_t i = 0; i + 2 <= text.size(); i += 2) {
    unsigned byte = 0;
    const char* const begin = text.data() + i;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) break;
    value.bytes.push_back(static_cast<std::byte>(byte));
  }
  if (text.empty() || 2 * value.bytes.size() != text.size()) {
    argument.wrong_kind("bytes", "bytes in hexadecimal", json(text));
  }
  return value;
}

ArgumentValue value_in(const JsonKeys& argument) {
  if (argument.find("bytes") != nullptr) return bytes_in(argument);
  const json* value = argument.find("value");
  if (value == nullptr || !value->is_number()) {
    argument.wrong_kind("value", "a number", value == nullptr ? json() : *value);
  }
  return ScalarSpec{argument.text("type"), {json_text(*value)}};
}

CapturedArgument argument_in(const JsonKeys& argument, const Path& folder) {
  CapturedArgument result{argument.find_text("name").value_or(""), NullMemory{}, std::nullopt,
                          false};
  const std::string kind = argument.text("kind");
  if (kind == "array") {
    result.changed = argument.find("expected") != nullptr;
    result.value = array_in(argument, file_in(argument, "file", folder));
    result.expected =
        array_in(argument, file_in(argument, result.changed ? "expected" : "file", folder));
  } else if (kind == "same") {
    result.value =
        SharedMemory{std::to_string(size_in(argument, "of")), size_in(argument, "offset_bytes"),
                     type_in(argument), shape_in(argument)};
  } else if (kind == "local") {
    result.value = LocalMemory{size_in(argument, "bytes")};
  } else if (kind == "value") {
    result.value = value_in(argument);
  } else if (kind != "null") {
    argument.wrong_kind("kind", "array, same, local, value or null", json(kind));
  }
  return result;
}

void require_format(const JsonKeys& call) {
  const json* format = call.find("format");
  if (format == nullptr || *format != "clora-capture") {
    fail(ErrorCode::invalid_file, "{}: not a captured launch: no \"format\": \"clora-capture\"",
         call.source());
  }
  if (const std::int64_t version = call.integer("version"); version != 1) {
    fail(ErrorCode::unsupported,
         "{}: its version is {}, but this program reads 1; capture it again", call.source(),
         version);
  }
}

CapturedCall call_in(const JsonKeys& call, const Path& folder) {
  require_format(call);
  const JsonKeys device = call.object("device");
  CapturedCall result{.op = call.text("op"),
                      .launch = size_in(call, "launch"),
                      .device = device.text("name"),
                      .driver = device.text("driver"),
                      .file = call.text("file"),
                      .kernel = call.text("kernel"),
                      .options = call.text("options"),
                      .global = grid_in(call, "global"),
                      .local = grid_in(call, "local"),
                      .arguments = {}};
  const json& arguments = array_at(call, "arguments", kMaxArguments);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const JsonKeys argument(arguments[i], call.source(), fmt::format("arguments[{}]", i));
    result.arguments.push_back(argument_in(argument, folder));
  }
  return result;
}

}  // namespace

bool is_captured_call(const Path& path) {
  if (!std::filesystem::is_directory(path)) return false;
  if (std::filesystem::is_regular_file(path / kFile)) return true;
  throw UsageError(
      fmt::format("{}: a folder must be a captured launch, but this one has no {}; run a program "
                  "with CLORA_CAPTURE=OP:N to write one",
                  path.string(), kFile));
}

CapturedCall read_captured_call(const Path& folder) {
  const Path path = folder / kFile;
  const json call = parse_json(MappedFile::open(path).text(), path.string(), kLimits);
  return call_in(JsonKeys(call, path.string()), folder);
}

KernelCallSpec spec_of(const CapturedCall& captured, const KernelFile& file) {
  KernelCallSpec spec{.file = file,
                      .options = captured.options,
                      .kernel = captured.kernel,
                      .global = captured.global,
                      .local = captured.local,
                      .arguments = {}};
  for (std::size_t i = 0; i < captured.arguments.size(); ++i) {
    spec.arguments.push_back({std::to_string(i), captured.arguments[i].value});
  }
  return spec;
}

std::string overridden_options(const std::string& options, const ClcOptions& given) {
  if (given.options.empty() && given.defines.empty()) return options;
  std::vector<std::string> names;
  for (const std::string& define : given.defines) names.push_back(define_name(define));
  std::string result = options_without(given.options.empty() ? options : given.options, names);
  for (const std::string& define : given.defines) {
    result += (result.empty() ? "-D " : " -D ") + define;
  }
  return result;
}

void override_argument(std::vector<CallArgument>& arguments, const CapturedCall& captured,
                       const CallArgument& given) {
  for (std::size_t i = 0; i < captured.arguments.size(); ++i) {
    if (given.name == captured.arguments[i].name || given.name == arguments[i].name) {
      arguments[i].value = given.value;
      return;
    }
  }
  arguments.push_back(given);
}

}  // namespace clora
