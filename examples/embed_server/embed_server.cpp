// embed_server: a small inference server that embeds clora and implements OpenAI's fields.
// engine.hpp holds the calls of clora, openai.hpp the fields, options.hpp the command line; this
// file adds HTTP with the limits of serving/.
//   POST /v1/completions, POST /v1/chat/completions, GET /v1/models, GET /health
// "model" in a request is an adapter's NAME, or "base". Replies are generated one at a time. A
// client that disconnects ends its reply. Ctrl-C ends the current reply and the server.
#include <csignal>
#include <cstdio>
#include <future>

#include "clora/runtime/device/driver_cache.hpp"
#include "clora/runtime/device/driver_threads.hpp"
#include "clora/serving/http_server.hpp"
#include "clora/serving/reply_stream.hpp"
#include "engine.hpp"
#include "openai.hpp"
#include "options.hpp"

namespace {

using namespace std::chrono_literals;

std::atomic<bool> stopping = false;

struct Service {
  Engine& engine;
  std::size_t waiting_bytes;
};

std::string event_of(const std::string& data) { return "data: " + data + "\n\n"; }

// Streams the events of a reply as they are generated.
void generate(Engine& engine, const Request& r, const std::function<bool(std::string)>& push) {
  const auto generated =
      engine.generate(r.model, r.tokens, r.config, r.stops, [&](const auto& text) {
        const std::string event =
            text.empty() ? "" : event_of(clora::json_text(reply_of(r, text, nullptr)));
        return !stopping && push(event);
      });
  push(event_of(clora::json_text(reply_of(r, "", name_of(generated.finish_reason)))));
  if (r.include_usage) {
    json usage = reply_of(r, "", nullptr);
    usage["choices"] = json::array();
    usage["usage"] = usage_of(r, generated);
    push(event_of(clora::json_text(usage)));
  }
  push(event_of("[DONE]"));
}

bool stream(const Service& service, const Request& r, httplib::DataSink& sink) {
  const auto send = [&](const std::string& event) {
    return sink.write(event.data(), event.size());
  };
  bool sent = false;
  try {
    sent = clora::run({.generate = [&](const auto& push) { generate(service.engine, r, push); },
                       .send = send,
                       .wanted = [&] { return sink.is_writable(); },
                       .max_waiting_bytes = service.waiting_bytes});
  } catch (const std::exception& error) {  // too late for another status
    sent = send(event_of(clora::json_text(clora::error_reply(error).body)));
  }
  if (sent) sink.done();
  return sent;
}

void complete(const Service& service, const Request& r, httplib::Response& response) {
  if (r.stream) {
    response.set_chunked_content_provider(
        "text/event-stream",
        [service, r](std::size_t, httplib::DataSink& sink) { return stream(service, r, sink); });
    return;
  }
  std::string text;
  const auto generated =
      service.engine.generate(r.model, r.tokens, r.config, r.stops, [&](const auto& piece) {
        text += piece;
        return !stopping && !clora::HttpServer::client_left();
      });
  json reply = reply_of(r, text, name_of(generated.finish_reason));
  reply["usage"] = usage_of(r, generated);
  clora::HttpServer::answer(response, reply);
}

void add_routes(clora::HttpServer& server, const Service& service) {
  const auto post = [&](const char* path, clora::CompletionKind kind) {
    server.Post(path, [service, kind](const auto& request, auto& response) {
      complete(service, read(service.engine, request.body, kind), response);
    });
  };
  post("/v1/completions", clora::CompletionKind::text);
  post("/v1/chat/completions", clora::CompletionKind::chat);
  Engine& engine = service.engine;
  server.Get("/v1/models", [&engine](const auto&, auto& response) {
    json list = json::array();
    for (const auto& [name, _] : engine.served) list.push_back({{"id", name}, {"object", "model"}});
    clora::HttpServer::answer(response, {{"object", "list"}, {"data", list}});
  });
  server.Get("/health", [&engine](const auto&, auto& response) {
    clora::HttpServer::answer(response,
                              {{"status", engine.context.health()->lost() ? "lost" : "ok"},
                               {"device", engine.context.device().name},
                               {"memory_in_use_bytes", engine.memory_bytes.load()},
                               {"generated_tokens", engine.tokens.load()}});
  });
}

// Serves until SIGINT or SIGTERM, which the function also raises if the socket fails.
void listen(clora::HttpServer& server, int port, const sigset_t& signals) {
  const int bound = server.bind(port);
  const auto listener = std::async(std::launch::async, [&] {
    server.listen_after_bind();
    if (!stopping) kill(getpid(), SIGTERM);
  });
  const auto ended = [&] { return listener.wait_for(0s) == std::future_status::ready; };
  while (!server.is_running() && !ended()) std::this_thread::yield();  // stop() needs it running
  std::printf("listening on http://127.0.0.1:%d\n", bound);
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  if (!server.is_running()) {
    throw clora::Error(clora::ErrorCode::io, "the listening socket failed");
  }
  stopping = true;
  server.stop();
  listener.wait();
}

void run(const std::vector<std::string>& arguments) {
  const Options options = read_options(arguments);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // in every thread: listen() waits for them
  clora::pin_driver_threads();                    // before threads and OpenCL, as the next line
  const clora::DriverCache drivers(clora::default_cache_folder());
  Engine engine(options.model.c_str());
  for (const auto& [name, folder] : options.adapters) engine.add(name, folder);
  clora::HttpServer server(options.limits);
  add_routes(server, {engine, options.waiting_bytes});
  listen(server, options.port, signals);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embed_server: %s\n", error.what());
    return 1;
  }
}
