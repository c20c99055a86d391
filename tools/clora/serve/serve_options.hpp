// The options of clora serve.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clora/serving/http_limits.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct ServeOptions {
  CommonOptions common;
  std::string name;                   // of the base model; empty: the last part of its path
  std::vector<std::string> adapters;  // NAME=PATH
  std::string adapters_dir;
  bool allows_loading = false;
  std::int64_t max_rank = 0;  // 0: what the adapters need, two at once
  std::int64_t max_device_adapters =
      0;  // 0: as many as are given, at least 8 if loading is allowed
  std::string chat_template;

  std::int64_t max_sequences = 8;
  std::int64_t max_positions = 4096;
  std::int64_t cache_positions = 0;  // 0: for every sequence
  std::int64_t step_tokens = 512;
  std::string kv_cache_type = "auto";
  std::int64_t max_output_tokens = 0;  // 0: what fits
  std::int64_t max_queue = 128;
  std::int64_t draft_tokens = 0;

  std::string host = "127.0.0.1";
  int port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string cors_origin;
  bool describes_tokenizer = false;
  std::int64_t max_connections = 256;
  std::int64_t max_body_bytes = std::int64_t{4} << 20U;
  double request_timeout = 600;  // seconds, as all below
  double receive_timeout = 30;
  double write_timeout = 10;
  double idle_timeout = 5;
  double drain_timeout = 30;
  std::string metrics_prefix = "clora";
};

void add_serve_options(CLI::App& command, ServeOptions& options);

// The keys of the options and of the file: a key per line, without empty ones. Errors: io;
// invalid_file for a file without a key.
std::vector<std::string> api_keys_of(const ServeOptions& options);

// The limits of the HTTP server.
HttpLimits http_limits_of(const ServeOptions& options);

struct NamedAdapter {
  std::string name;
  std::string folder;
};

// Errors: UsageError: a text that is not NAME=PATH; --allow-adapter-loading without --adapters-dir.
std::vector<NamedAdapter> named_adapters_of(const ServeOptions& options);

}  // namespace clora
