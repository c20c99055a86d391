// clora serve: an HTTP server with OpenAI's API.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/serve/model_service.hpp"
#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora serve --model MODEL.gguf
  clora serve --model MODEL.gguf --adapter sql=my-adapter --adapter tidy=other-adapter --port 8000
  clora serve --model MODEL.gguf --adapters-dir adapters --allow-adapter-loading
  curl localhost:8080/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello"}]}'
The server has OpenAI's API under /v1 (chat/completions, completions, models), a page to chat at /,
and /health, /metrics, /tokenize and /detokenize. "model" in a request is the name of the base model
or of an adapter. Each request is logged as a line of JSON on stderr, unless --quiet is given.
SIGTERM and Ctrl-C let replies finish; a second one stops immediately.)";

bool is_local(const std::string& host) {
  return host == "127.0.0.1" || host == "::1" || host == "localhost";
}

// Writes lines from several threads, each whole.
class ErrorLines {
 public:
  void operator()(const std::string& line) const {
    const std::string whole = line + "\n";
    const std::lock_guard lock(*mutex_);
    std::fwrite(whole.data(), 1, whole.size(), stderr);
  }

 private:
  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
};

ApiOptions api_options(const ServeOptions& options) {
  ApiOptions api{.host = options.host,
                 .port = options.port,
                 .limits = http_limits_of(options),
                 .access = {.api_keys = api_keys_of(options), .cors_origin = options.cors_origin},
                 .logs_all = options.common.output.verbose};
  if (!options.common.output.quiet) api.log = ErrorLines();
  return api;
}

// Errors: those of ModelService, with the options of serve in place of the library's settings: its
// messages about memory name those that decide how much a server takes.
std::unique_ptr<ModelService> open_service(const ServeOptions& options, Output& output) {
  try {
    return std::make_unique<ModelService>(options, output);
  } catch (const Error& error) {
    std::string message = error.what();
    replace_all(message, "`context_length`", "--cache-positions");
    replace_all(message, "`batch_size` or `max_seq_length`", "--step-tokens or --max-sequences");
    replace_all(message, "`rank`", "--max-rank");
    replace_all(message, "`cache_positions`", "--cache-positions");
    replace_all(message, "`max_positions`", "--max-positions");
    replace_all(message, "`max_sequences`", "--max-sequences");
    replace_all(message, "`cache_type`", "--kv-cache-type");
    throw Error(error.code(), message, error.opencl_status());
  }
}

// Returns at the first signal. Errors: io if the socket fails.
void wait_for_signal(const Interrupt& interrupt, const ApiServer& server) {
  while (!interrupt.requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (server.has_failed()) fail(ErrorCode::io, "the listening socket failed");
  }
}

int serve(const ServeOptions& options) {
  Output output(options.common.output);
  named_adapters_of(options);  // mistakes in options are found before the port is taken
  const ApiOptions api = api_options(options);
  std::unique_ptr<ModelService> service;  // above the server, so that it ends after it
  ApiServer server(api);
  output.info("Loading {}; {}/health reports when it is ready", options.common.model, server.url());
  service = open_service(options, output);
  const Interrupt interrupt("\nclora: finishing replies; press Ctrl-C again to stop immediately\n");
  server.open(service->parts());
  service->show_plan(output);
  if (api.access.api_keys.empty() && !is_local(options.host)) {
    output.warning("anyone who can reach {} can use the server; --api-key restricts it",
                   server.url());
  }
  output.result("Serving {} on {}", service->base_name(), server.url());
  output.object({{"url", server.url()}, {"port", server.port()}, {"model", service->base_name()}});
  std::fflush(stdout);
  wait_for_signal(interrupt, server);
  const auto patience = static_cast<std::int64_t>(options.drain_timeout * 1000);
  if (!server.drain(std::chrono::milliseconds(patience))) {
    output.warning("replies that took longer than --drain-timeout were cancelled");
  }
  return 0;
}

}  // namespace

void add_serve_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("serve", "Serve a model and its adapters over HTTP");
  const auto options = std::make_shared<ServeOptions>();
  add_serve_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return serve(*options); }; });
}

}  // namespace clora
