#include "tests/fuzz/target.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "clora/runtime/error.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {
namespace {

constexpr std::array kTargets{
    Target{"adapter", read_adapter, adapter_seeds},
    Target{"capture", read_capture, capture_seeds},
    Target{"chat_template", read_chat_template, chat_template_seeds},
    Target{"gbnf", read_gbnf, gbnf_seeds},
    Target{"generation_config", read_generation_config, generation_config_seeds},
    Target{"gguf", read_gguf, gguf_seeds},
    Target{"gguf_adapter", read_gguf_adapter_file, gguf_adapter_seeds},
    Target{"gguf_parts", read_gguf_parts, gguf_parts_seeds},
    Target{"http_request", read_http_request, http_request_seeds},
    Target{"json_schema", read_json_schema, json_schema_seeds},
    Target{"mlx_adapter", read_mlx_adapter_files, mlx_adapter_seeds},
    Target{"model_config", read_model_config, model_config_seeds},
    Target{"npy", read_npy_file, npy_seeds},
    Target{"pre_tokenizer", read_pre_tokenizer, pre_tokenizer_seeds},
    Target{"quantised_layers", read_quantised_layers, quantised_layers_seeds},
    Target{"records", read_records, records_seeds},
    Target{"run_config", read_run_config, run_config_seeds},
    Target{"safetensors", read_safetensors, safetensors_seeds},
    Target{"saved_prefix", read_saved_prefix, saved_prefix_seeds},
    Target{"tokenizer", read_tokenizer, tokenizer_seeds},
};

constexpr std::string_view kForeignWords = "[json.exception";

volatile unsigned sink;
std::string_view input_now;

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(kTargets, name, &Target::name);
  return found == kTargets.end() ? nullptr : &*found;
}

void feed(const Target& target, std::string_view input) {
  input_now = input;
  target.read(input);
}

void attempt(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    const bool has_foreign_words = message.find(kForeignWords) != std::string_view::npos &&
                                   input_now.find(kForeignWords) == std::string_view::npos;
    if (message.empty() || has_foreign_words)
      throw std::logic_error("a message that is not in our own words: " + std::string(message));
  }
}

std::vector<std::string_view> parts_of(std::string_view input, std::size_t count) {
  std::vector<std::string_view> parts(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end =
        i + 1 == count ? input.size() : std::min(input.find('\0'), input.size());
    parts[i] = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return parts;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string input;
  for (const std::string_view part : parts) {
    input += part;
    input += '\0';
  }
  input.pop_back();
  return input;
}

void use(std::string_view text) { use(std::as_bytes(std::span(text))); }

void use(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  sink = sum;
}

}  // namespace clora::fuzz
