#include "tools/clora/serve/serve_options.hpp"

#include <CLI/CLI.hpp>
#include <sstream>

#include "clora/model/generation/generation_request.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/stage_options.hpp"
#include "tools/command_line/byte_size.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void add_adapter_options(CLI::App& command, ServeOptions& options) {
  const std::string group = "Models";
  command.add_option("--name", options.name, "Name of the base model (default: that of its file)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--adapter", options.adapters,
                  "Adapter: a folder of PEFT or of mlx-lm, or a GGUF file; may be repeated")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command
      .add_option("--adapters-dir", options.adapters_dir,
                  "Folder below which adapters may be loaded while the server runs")
      ->type_name("DIR")
      ->group(group);
  command
      .add_flag("--allow-adapter-loading", options.allows_loading,
                "Let clients load adapters of --adapters-dir, and unload adapters")
      ->group(group);
  command
      .add_option(
          "--max-rank", options.max_rank,
          "Largest rank of an adapter, or of two that a request adds (default: what the given "
          "ones need; at least 64 with --allow-adapter-loading)")
      ->transform(Integer(1, 65536))
      ->group(group);
  command
      .add_option("--max-device-adapters", options.max_device_adapters,
                  "Adapters in device memory at once (default: all that are given; at least 8 with "
                  "--allow-adapter-loading)")
      ->transform(Integer(1, 4096))
      ->group(group);
  add_chat_template_option(command, options.chat_template)->group(group);
}

CLI::Option* add_count(CLI::App& command, const char* name, std::int64_t& value, std::int64_t least,
                       const char* help) {
  return command.add_option(name, value, help)
      ->transform(Integer(least, kMaxCount))
      ->group("Generation");
}

void add_engine_options(CLI::App& command, ServeOptions& options) {
  add_count(command, "--max-sequences", options.max_sequences, 1,
            "Replies that are generated at once")
      ->capture_default_str();
  add_count(command, "--max-positions", options.max_positions, 2,
            "Longest prompt and reply together, in tokens; at most what the model supports")
      ->capture_default_str();
  add_count(
      command, "--cache-positions", options.cache_positions, 1,
      "Tokens in the KV cache, shared by all sequences (default: --max-positions for each, or "
      "what --memory leaves)");
  add_count(command, "--step-tokens", options.step_tokens, 1,
            "Tokens that are processed in one step; fewer let replies continue sooner while a long "
            "prompt is read")
      ->capture_default_str();
  command
      .add_option("--kv-cache-type", options.kv_cache_type,
                  "Type of the cached keys and values: bf16 and f16 take half the memory of f32, "
                  "q8_0 about a quarter; auto is bf16, or f32 with --precision f32")
      ->check(CLI::IsMember({"auto", "bf16", "f16", "q8_0", "f32"}))
      ->capture_default_str()
      ->group("Generation");
  add_count(command, "--max-output-tokens", options.max_output_tokens, 1,
            "Longest reply, in tokens (default: what --max-positions leaves)");
  command
      .add_option("--draft-tokens", options.draft_tokens,
                  "Tokens that are guessed from earlier ones and verified in one step, which is "
                  "faster for texts that repeat themselves; 0: none")
      ->transform(Integer(0, kMaxDraftTokens))
      ->capture_default_str()
      ->group("Generation");
  add_count(command, "--max-queue", options.max_queue, 0,
            "Replies that may wait; requests beyond are refused with status 429")
      ->capture_default_str();
}

void add_seconds(CLI::App& command, const char* name, double& value, const char* help) {
  command.add_option(name, value, help)
      ->transform(NumberAbove(0, kMaxSeconds))
      ->capture_default_str()
      ->type_name("SECONDS")
      ->group("Server");
}

void add_access_options(CLI::App& command, ServeOptions& options) {
  const std::string group = "Server";
  command.add_option("--host", options.host, "Address to listen on; 0.0.0.0: all of this machine")
      ->capture_default_str()
      ->group(group);
  command.add_option("--port", options.port, "Port to listen on; 0: any free one")
      ->transform(Integer(0, 65535))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--api-key", options.api_keys,
                  "Key that requests must have, as 'Authorization: Bearer KEY'; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command
      .add_option("--api-key-file", options.api_key_file,
                  "File with such keys, one per line; unlike --api-key, they are not in the list "
                  "of processes")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--cors-origin", options.cors_origin,
                  "Origin whose web pages may use the server, such as https://example.org, or *")
      ->type_name("ORIGIN")
      ->group(group);
  command
      .add_flag("--tokenizer-info", options.describes_tokenizer,
                "Answer GET /tokenizer_info with special tokens and the chat template")
      ->group(group);
  command.add_option("--metrics-prefix", options.metrics_prefix, "Prefix of the names in /metrics")
      ->check(CLI::IsMember({"clora", "vllm"}))
      ->capture_default_str()
      ->group(group);
}

void add_limit_options(CLI::App& command, ServeOptions& options) {
  const std::string group = "Server";
  command.add_option("--max-connections", options.max_connections, "Connections at once")
      ->transform(Integer(1, 10'000))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-body", options.max_body_bytes, "Longest body of a request (default: 4MiB)")
      ->transform(ByteSize())
      ->type_name("SIZE")
      ->group(group);
  add_seconds(command, "--request-timeout", options.request_timeout,
              "Longest time to generate the replies to a request");
  add_seconds(command, "--receive-timeout", options.receive_timeout,
              "Longest time for a request to arrive");
  add_seconds(command, "--write-timeout", options.write_timeout,
              "Longest time for a client to take a part of its reply");
  add_seconds(command, "--idle-timeout", options.idle_timeout,
              "Longest time that a connection stays open without a request");
  add_seconds(command, "--drain-timeout", options.drain_timeout,
              "Longest time to finish replies after SIGTERM or Ctrl-C");
}

}  // namespace

void add_serve_options(CLI::App& command, ServeOptions& options) {
  add_model_option(command, options.common);
  add_device_option(command, options.common);
  add_stage_options(command, options.common);
  add_precision_option(command, options.common);
  add_memory_option(command, options.common);
  add_adapter_options(command, options);
  add_engine_options(command, options);
  add_access_options(command, options);
  add_limit_options(command, options);
  add_output_options(command, options.common);
}

std::vector<std::string> api_keys_of(const ServeOptions& options) {
  std::vector<std::string> keys = options.api_keys;
  if (!options.api_key_file.empty()) {
    std::istringstream lines{std::string(MappedFile::open(options.api_key_file).text())};
    const std::size_t before = keys.size();
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) keys.push_back(line);
    }
    if (keys.size() == before) {
      fail(ErrorCode::invalid_file, "{}: a file of API keys must have a key on a line, got none",
           options.api_key_file);
    }
  }
  for (const std::string& key : keys) {
    if (key.empty()) throw UsageError("--api-key must not be empty");
  }
  return keys;
}

HttpLimits http_limits_of(const ServeOptions& options) {
  return {.body_bytes = static_cast<std::size_t>(options.max_body_bytes),
          .request_time = milliseconds_of(options.receive_timeout),
          .idle_time = milliseconds_of(options.idle_timeout),
          .write_time = milliseconds_of(options.write_timeout),
          .connections = static_cast<std::size_t>(options.max_connections)};
}

std::vector<NamedAdapter> named_adapters_of(const ServeOptions& options) {
  if (options.allows_loading && options.adapters_dir.empty()) {
    throw UsageError("--allow-adapter-loading needs --adapters-dir");
  }
  std::vector<NamedAdapter> adapters;
  for (const std::string& text : options.adapters) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw UsageError("--adapter must be NAME=PATH, got '" + text + "'");
    }
    adapters.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return adapters;
}

}  // namespace clora
