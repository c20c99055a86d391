// embed_server: a small inference server that embeds clora, with OpenAI's fields.
//   embed_server MODEL PORT [NAME=ADAPTER_FOLDER]...        PORT 0: any that is free
//   POST /v1/completions, POST /v1/chat/completions, GET /v1/models, GET /health
// "model" in a request is an adapter's NAME, or "base". Replies are made one at a time. A client
// that leaves a stream ends its reply; one that is not streamed is made to its end, since httplib
// does not tell. Ctrl-C ends the reply in hand and the server.
#include <httplib.h>
#include <signal.h>

#include <cstdio>
#include <ctime>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "lora/peft_files.hpp"
#include "model/chat_template.hpp"
#include "model/generator.hpp"
#include "model/stop_filter.hpp"
#include "model/tokenizer_files.hpp"
#include "runtime/error.hpp"

namespace {

using clora::ErrorCode;
using nlohmann::json;

constexpr std::int64_t kPositions = 2048;  // prompt and reply together
std::atomic<bool> stopping = false;

// ---- What the server does with clora

struct Served {
  std::optional<clora::Adapter> adapter;
  std::unique_ptr<clora::Generator> generator;  // below its adapter, so it goes first
};

// One model, several adapters. generate() may be called from any thread: a Context is used by one
// at a time, so a mutex stands in front of it. All else is only read once it is made.
struct Engine {
  explicit Engine(const char* path)
      : tokenizer(clora::load_tokenizer(path)),
        context(clora::config_from_environment()),
        model(context, clora::WeightFiles::open(path)) {
    serve("base", std::nullopt);
  }

  void serve(const std::string& name, std::optional<clora::Adapter> adapter) {
    Served& made = served[name];
    made.adapter = std::move(adapter);
    const std::int64_t known = model.config().max_positions;
    made.generator =
        std::make_unique<clora::Generator>(model, made.adapter ? &*made.adapter : nullptr,
                                           known > 0 ? std::min(known, kPositions) : kPositions);
    memory = context.pool().statistics().in_use_bytes;
  }

  // on_text gets each piece; false from it ends the reply.
  clora::Generation generate(const std::string& name, std::span<const std::int32_t> prompt,
                             clora::GenerationConfig config, const std::vector<std::string>& stops,
                             const std::function<bool(const std::string&)>& on_text) {
    const std::lock_guard lock(device);
    clora::StreamDecoder decoder(tokenizer);  // tokens are parts of characters
    clora::StopFilter filter(stops);
    config.end_ids = tokenizer.end_of_generation();
    config.on_prompt = [&](std::int64_t) { return on_text(""); };  // a long prompt can be left, too
    clora::Generation made = served.at(name).generator->generate(prompt, config, [&](int id) {
      return on_text(filter.push(decoder.push(id))) && !filter.stopped();
    });
    on_text(filter.push(decoder.finish()) + filter.finish());
    if (filter.stopped()) made.finish_reason = clora::FinishReason::stop;
    memory = context.pool().statistics().in_use_bytes;
    tokens += made.ids.size();
    return made;
  }

  clora::Tokenizer tokenizer;
  clora::Context context;
  clora::LanguageModel model;
  std::map<std::string, Served> served;
  std::atomic<std::size_t> memory = 0;  // in use when the last reply ended
  std::atomic<std::size_t> tokens = 0;  // generated so far
  std::mutex device;
};

// ---- HTTP

struct Request {
  bool chat = false, stream = false;
  std::string model;
  std::vector<std::int32_t> prompt;
  clora::GenerationConfig config;
  std::vector<std::string> stops;
};

std::vector<std::int32_t> prompt_of(const Engine& engine, const json& body, bool chat) {
  if (!chat) return engine.tokenizer.encode(body.at("prompt").get<std::string>());
  std::vector<clora::ChatMessage> messages;
  for (const json& m : body.at("messages")) messages.push_back({m.at("role"), m.at("content")});
  return clora::ChatTemplate::recognise(engine.tokenizer.chat_template(), engine.tokenizer)
      .encode(messages, true, engine.tokenizer)
      .ids;
}

// Errors: json::exception for a field that is missing or of another type, clora::Error.
Request read(const Engine& engine, const std::string& text, bool chat) {
  const json body = json::parse(text);
  Request r;
  r.chat = chat;
  r.stream = body.value("stream", false);
  r.model = body.value("model", "base");
  if (!engine.served.contains(r.model))
    clora::fail(ErrorCode::not_found, "model: no '{}'", r.model);
  r.prompt = prompt_of(engine, body, chat);
  r.config.max_tokens = body.value("max_tokens", 256);
  r.config.temperature = body.value("temperature", 1.0);
  r.config.top_p = body.value("top_p", 1.0);
  r.config.seed = body.value("seed", std::random_device{}());
  const json stop = body.value("stop", json::array());
  r.stops = stop.is_array() ? stop.get<std::vector<std::string>>() : std::vector<std::string>{stop};
  clora::require(!r.prompt.empty() && r.prompt.size() < kPositions && r.config.max_tokens > 0 &&
                     r.config.temperature >= 0 && r.config.top_p > 0 && r.config.top_p <= 1,
                 "request: prompt of 1 to {} tokens, max_tokens > 0, temperature >= 0, "
                 "0 < top_p <= 1",
                 kPositions - 1);
  return r;
}

// A whole reply, or one piece of a stream; reason is null but at the end.
json reply_of(const Request& r, const std::string& text, const json& reason) {
  json choice{{"index", 0}, {"finish_reason", reason}};
  if (!r.chat)
    choice["text"] = text;
  else if (r.stream)
    choice["delta"] = {{"content", text}};
  else
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  const char* object = !r.chat    ? "text_completion"
                       : r.stream ? "chat.completion.chunk"
                                  : "chat.completion";
  return {{"object", object},
          {"created", std::time(nullptr)},
          {"model", r.model},
          {"choices", {choice}}};
}

json error_of(const std::string& message) { return {{"error", {{"message", message}}}}; }

bool stream(Engine& engine, const Request& r, httplib::DataSink& sink) {
  const auto send = [&](const std::string& data) {
    const std::string event = "data: " + data + "\n\n";
    return sink.write(event.data(), event.size());
  };
  try {
    const auto made = engine.generate(r.model, r.prompt, r.config, r.stops, [&](const auto& text) {
      if (stopping || !sink.is_writable()) return false;
      return text.empty() || send(reply_of(r, text, nullptr).dump());
    });
    send(reply_of(r, "", name_of(made.finish_reason)).dump());
    send("[DONE]");
  } catch (const std::exception& error) {  // too late for another status
    send(error_of(error.what()).dump());
  }
  sink.done();
  return true;
}

void complete(Engine& engine, const Request& r, httplib::Response& response) {
  if (r.stream) {
    response.set_chunked_content_provider(
        "text/event-stream",
        [&engine, r](std::size_t, httplib::DataSink& sink) { return stream(engine, r, sink); });
    return;
  }
  std::string text;
  const auto made = engine.generate(r.model, r.prompt, r.config, r.stops, [&](const auto& piece) {
    text += piece;
    return !stopping;
  });
  json reply = reply_of(r, text, name_of(made.finish_reason));
  reply["usage"] = {{"prompt_tokens", r.prompt.size()}, {"completion_tokens", made.ids.size()}};
  response.set_content(reply.dump(), "application/json");
}

int status_of(ErrorCode code) {
  if (code == ErrorCode::not_found) return 404;
  if (code == ErrorCode::invalid_argument || code == ErrorCode::unsupported) return 400;
  return code == ErrorCode::out_of_memory || code == ErrorCode::device_lost ? 503 : 500;
}

// A handler whose exceptions become a status and a JSON body.
httplib::Server::Handler guarded(
    std::function<void(const httplib::Request&, httplib::Response&)> f) {
  return [f = std::move(f)](const httplib::Request& request, httplib::Response& response) {
    const auto refuse = [&](int status, const char* message) {
      response.status = status;
      response.set_content(error_of(message).dump(), "application/json");
    };
    try {
      f(request, response);
    } catch (const clora::Error& error) {
      refuse(status_of(error.code()), error.what());
    } catch (const json::exception& error) {
      refuse(400, error.what());
    } catch (const std::exception& error) {
      refuse(500, error.what());
    }
  };
}

void add_routes(httplib::Server& server, Engine& engine) {
  server.Post("/v1/completions", guarded([&](const auto& request, auto& response) {
                complete(engine, read(engine, request.body, false), response);
              }));
  server.Post("/v1/chat/completions", guarded([&](const auto& request, auto& response) {
                complete(engine, read(engine, request.body, true), response);
              }));
  server.Get(
      "/v1/models", guarded([&](const auto&, auto& response) {
        json list = json::array();
        for (const auto& [name, _] : engine.served)
          list.push_back({{"id", name}, {"object", "model"}});
        response.set_content(json{{"object", "list"}, {"data", list}}.dump(), "application/json");
      }));
  server.Get("/health", guarded([&](const auto&, auto& response) {
               const json health{{"status", engine.context.health()->lost() ? "lost" : "ok"},
                                 {"device", engine.context.device().name},
                                 {"memory_in_use_bytes", engine.memory.load()},
                                 {"generated_tokens", engine.tokens.load()}};
               response.set_content(health.dump(), "application/json");
             }));
}

void run(int argc, char** argv) {
  clora::require(argc >= 3, "usage: embed_server MODEL PORT [NAME=ADAPTER_FOLDER]...");
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // in every thread: this one waits for them
  Engine engine(argv[1]);
  const auto sites = clora::adapter_sites(engine.model.config());
  for (const std::string argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(3)) {
    const std::size_t equals = argument.find('=');
    clora::require(equals != std::string::npos, "an adapter is NAME=FOLDER, got '{}'", argument);
    engine.serve(argument.substr(0, equals),
                 clora::load_adapter(engine.context, argument.substr(equals + 1), sites));
  }
  httplib::Server server;
  add_routes(server, engine);
  int port = std::stoi(argv[2]);
  if (port == 0)
    port = server.bind_to_any_port("127.0.0.1");
  else if (!server.bind_to_port("127.0.0.1", port))
    port = -1;
  clora::require(port > 0, "port {} cannot be had", argv[2]);
  std::printf("listening on http://127.0.0.1:%d\n", port);
  std::fflush(stdout);
  std::thread listener([&] { server.listen_after_bind(); });
  int signal = 0;
  sigwait(&signals, &signal);
  stopping = true;
  server.stop();
  listener.join();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embed_server: %s\n", error.what());
    return 1;
  }
}
