// embed_server: an inference server in one page: a model and its adapters, OpenAI's completions and
// chats, many clients at once. `clora serve` is the server for users; this is how a program embeds
// the same parts.
//   embed_server MODEL PORT [NAME=ADAPTER_FOLDER]...
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/device/driver_cache.hpp"
#include "clora/runtime/device/driver_threads.hpp"
#include "clora/serving/completion_service.hpp"
#include "clora/serving/engine_backend.hpp"
#include "clora/serving/http_server.hpp"

namespace {

void answer(clora::CompletionService& service, clora::CompletionKind kind,
            const httplib::Request& request, httplib::Response& response) {
  const std::shared_ptr<clora::CompletionRun> run = service.start(request.body, kind);
  if (!run->is_stream()) {
    const auto reply = run->complete([] { return clora::HttpServer::client_left(); });
    return clora::HttpServer::answer(response, reply);
  }
  response.set_chunked_content_provider("text/event-stream", [run](auto, httplib::DataSink& sink) {
    const auto send = [&](const std::string& event) {
      return sink.write(event.data(), event.size());
    };
    const bool sent = run->stream(send, [] { return clora::HttpServer::client_left(); });
    if (sent) sink.done();
    return sent;
  });
}

void serve(const std::string& path, int port, const std::vector<std::string>& adapters) {
  clora::pin_driver_threads();  // before threads and OpenCL, as the next line
  const clora::DriverCache drivers(clora::default_cache_folder());
  clora::Context context(clora::config_from_environment());
  clora::LanguageModel model(context, clora::WeightFiles::open(path));
  const clora::Tokenizer tokenizer = clora::load_tokenizer(path);
  const auto chat_template = clora::ChatTemplate::of_model(tokenizer);

  clora::ServedModels models("base", path);
  clora::Engine engine(model, {.max_positions = 2048,
                               .device_adapters = std::ssize(adapters),
                               .max_rank = adapters.empty() ? 0 : 64,
                               .tokenizer = &tokenizer});
  for (const std::string& adapter : adapters) {
    const std::string name = adapter.substr(0, adapter.find('='));
    const std::string path = adapter.substr(adapter.find('=') + 1);
    engine.add_adapter(name, clora::load_adapter(context, path, model.config()));
    models.add(name, path);
  }
  clora::EngineBackend backend(engine);
  clora::ServerMetrics metrics("clora", "base");
  clora::EngineThread thread(backend, metrics);  // from here on it alone uses the device
  clora::CompletionService service({.engine = &thread,
                                    .models = &models,
                                    .tokenizer = &tokenizer,
                                    .chat_template = &chat_template,
                                    .end_ids = tokenizer.end_of_generation(),
                                    .limits = {.max_positions = 2048}});

  clora::HttpServer server(clora::HttpLimits{});
  server.Post("/v1/completions", [&](const auto& request, auto& response) {
    answer(service, clora::CompletionKind::text, request, response);
  });
  server.Post("/v1/chat/completions", [&](const auto& request, auto& response) {
    answer(service, clora::CompletionKind::chat, request, response);
  });
  server.Get("/v1/models", [&](const auto&, auto& response) {
    clora::HttpServer::answer(response, models.list());
  });
  std::printf("listening on http://127.0.0.1:%d\n", server.bind(port));
  std::fflush(stdout);
  server.listen_after_bind();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) {
      std::fputs("usage: embed_server MODEL PORT [NAME=ADAPTER_FOLDER]...\n", stderr);
      return 1;
    }
    serve(argv[1], std::atoi(argv[2]), {argv + 3, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embed_server: %s\n", error.what());
    return 1;
  }
}
