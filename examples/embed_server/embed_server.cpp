// embed_server: a small inference server that embeds clora, with OpenAI's fields. engine.hpp is
// what it does with clora, openai.hpp the fields; this is HTTP around them.
//   embed_server MODEL PORT [NAME=ADAPTER_FOLDER]...        PORT 0: any that is free
//   POST /v1/completions, POST /v1/chat/completions, GET /v1/models, GET /health
// "model" in a request is an adapter's NAME, or "base". Replies are made one at a time. A client
// that leaves a stream ends its reply; one that is not streamed is made to its end, since httplib
// does not tell. Ctrl-C ends the reply in hand and the server.
#include <httplib.h>
#include <signal.h>

#include <cstdio>
#include <thread>

#include "engine.hpp"
#include "openai.hpp"

namespace {

std::atomic<bool> stopping = false;

void answer(httplib::Response& response, const json& body, int status = 200) {
  response.status = status;
  response.set_content(body.dump(), "application/json");
}

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
  answer(response, reply);
}

// An exception of a handler, as a status and a JSON body.
void refuse(const httplib::Request&, httplib::Response& response, std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const clora::Error& error) {
    answer(response, error_of(error.what()), status_of(error.code()));
  } catch (const json::exception& error) {
    answer(response, error_of(error.what()), 400);
  } catch (const std::exception& error) {
    answer(response, error_of(error.what()), 500);
  }
}

void add_routes(httplib::Server& server, Engine& engine) {
  server.set_exception_handler(refuse);
  server.Post("/v1/completions", [&](const auto& request, auto& response) {
    complete(engine, read(engine, request.body, false), response);
  });
  server.Post("/v1/chat/completions", [&](const auto& request, auto& response) {
    complete(engine, read(engine, request.body, true), response);
  });
  server.Get("/v1/models", [&](const auto&, auto& response) {
    json list = json::array();
    for (const auto& [name, _] : engine.served) list.push_back({{"id", name}, {"object", "model"}});
    answer(response, {{"object", "list"}, {"data", list}});
  });
  server.Get("/health", [&](const auto&, auto& response) {
    answer(response, {{"status", engine.context.health()->lost() ? "lost" : "ok"},
                      {"device", engine.context.device().name},
                      {"memory_in_use_bytes", engine.memory_bytes.load()},
                      {"generated_tokens", engine.tokens.load()}});
  });
}

// Serves until SIGINT or SIGTERM.
void listen(httplib::Server& server, int port, const sigset_t& signals) {
  const int bound = port == 0                                ? server.bind_to_any_port("127.0.0.1")
                    : server.bind_to_port("127.0.0.1", port) ? port
                                                             : -1;
  clora::require(bound > 0, "port {} cannot be had", port);
  std::printf("listening on http://127.0.0.1:%d\n", bound);
  std::fflush(stdout);
  std::thread listener([&] { server.listen_after_bind(); });
  int signal = 0;
  sigwait(&signals, &signal);
  stopping = true;
  server.stop();
  listener.join();
}

void run(const std::vector<std::string>& arguments) {
  clora::require(arguments.size() >= 2, "usage: embed_server MODEL PORT [NAME=ADAPTER_FOLDER]...");
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // in every thread: listen() waits for them
  Engine engine(arguments[0].c_str());
  for (const std::string& adapter : std::span(arguments).subspan(2)) {
    const std::size_t equals = adapter.find('=');
    clora::require(equals != std::string::npos, "an adapter is NAME=FOLDER, got '{}'", adapter);
    engine.add(adapter.substr(0, equals), adapter.substr(equals + 1));
  }
  httplib::Server server;
  add_routes(server, engine);
  listen(server, std::stoi(arguments[1]), signals);
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
