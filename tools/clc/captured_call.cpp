#include "tools/clc/captured_call.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/error.hpp"
#include "tools/clc/option_words.hpp"
#include "tools/clc/work_folder.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr const char* kFile = "call.json";

ElementType type_in(const json& argument) {
  const auto name = argument.at("type").get<std::string>();
  const auto type = element_type(name);
  if (!type) fail(ErrorCode::invalid_file, "'{}' is no type of elements", name);
  return *type;
}

ArraySpec array_in(const json& argument, const Path& file) {
  ArraySpec spec;
  spec.kind = ArraySpec::Kind::file;
  spec.type = type_in(argument);
  spec.shape = argument.at("shape").get<Dimensions>();
  spec.file = file;
  spec.as_bf16 = spec.type == ElementType::bf16;
  spec.captured = true;
  return spec;
}

ValueBytes bytes_of_text(const std::string& text) {
  ValueBytes value;
  for (std::size_t i = 0; i + 2 <= text.size(); i += 2) {
    unsigned byte = 0;
    const char* const begin = text.data() + i;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) break;
    value.bytes.push_back(static_cast<std::byte>(byte));
  }
  if (2 * value.bytes.size() != text.size()) {
    fail(ErrorCode::invalid_file, "'{}' are no bytes in hexadecimal", text);
  }
  return value;
}

ArgumentValue value_in(const json& argument) {
  if (argument.contains("bytes")) return bytes_of_text(argument.at("bytes").get<std::string>());
  return ScalarSpec{argument.at("type").get<std::string>(), {argument.at("value").dump()}};
}

CapturedArgument argument_in(const json& argument, const Path& folder) {
  CapturedArgument result{argument.value("name", ""), NullMemory{}, std::nullopt, false};
  const auto kind = argument.at("kind").get<std::string>();
  if (kind == "array") {
    const auto file = argument.at("file").get<std::string>();
    result.value = array_in(argument, folder / file);
    result.expected = array_in(argument, folder / argument.value("expected", file));
    result.changed = argument.contains("expected");
  } else if (kind == "same") {
    result.value = SharedMemory{std::to_string(argument.at("of").get<std::size_t>()),
                                argument.at("offset_bytes").get<std::size_t>(), type_in(argument),
                                argument.at("shape").get<Dimensions>()};
  } else if (kind == "local") {
    result.value = LocalMemory{argument.at("bytes").get<std::size_t>()};
  } else if (kind == "value") {
    result.value = value_in(argument);
  } else if (kind != "null") {
    fail(ErrorCode::invalid_file, "'{}' is no kind of an argument", kind);
  }
  return result;
}

void require_format(const json& call) {
  if (call.value("format", "") != "clora-capture") {
    fail(ErrorCode::invalid_file, "it is no captured launch: no \"format\": \"clora-capture\"");
  }
  if (call.at("version") != 1) {
    fail(ErrorCode::unsupported, "its version is {}, this program reads 1; capture it anew",
         call.at("version").dump());
  }
}

CapturedCall call_in(const json& call, const Path& folder) {
  require_format(call);
  CapturedCall result{.op = call.at("op"),
                      .launch = call.at("launch"),
                      .device = call.at("device").at("name"),
                      .driver = call.at("device").at("driver"),
                      .file = call.at("file"),
                      .kernel = call.at("kernel"),
                      .options = call.at("options"),
                      .global = call.at("global"),
                      .local = call.at("local"),
                      .arguments = {}};
  for (const json& each : call.at("arguments")) {
    result.arguments.push_back(argument_in(each, folder));
  }
  return result;
}

}  // namespace

bool is_captured_call(const Path& path) {
  if (!std::filesystem::is_directory(path)) return false;
  if (std::filesystem::is_regular_file(path / kFile)) return true;
  throw UsageError(
      fmt::format("{}: a folder must be a captured launch, and this one has no {}; run a program "
                  "with CLORA_CAPTURE=OP:N to have one written",
                  path.string(), kFile));
}

CapturedCall read_captured_call(const Path& folder) {
  const Path file = folder / kFile;
  try {
    return call_in(json::parse(read_text(file)), folder);
  } catch (const json::exception& error) {
    fail(ErrorCode::invalid_file, "{}: {}", file.string(), error.what());
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", file.string(), error.what());
  }
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
