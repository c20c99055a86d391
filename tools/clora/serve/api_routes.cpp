#include "tools/clora/serve/api_routes.hpp"

#include "clora/runtime/files/json.hpp"
#include "serving/request_body.hpp"
#include "tools/clora/serve/page/page.hpp"

namespace clora {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;
using Parts = std::atomic<const ApiParts*>;

const ApiParts& loaded(const Parts& parts) {
  if (const ApiParts* ready = parts.load()) return *ready;
  throw RequestError({.status = 503, .code = "loading"},
                     "the model is being loaded; try again soon");
}

void answer_page(const Request&, Response& response) {
  // The page needs no other file, so it gets none.
  response.set_header("Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                      "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'");
  response.set_content(std::string(embedded_chat_page().front().text), "text/html; charset=utf-8");
}

void answer_health(const ApiParts* parts, Response& response) {
  if (parts == nullptr) return HttpServer::answer(response, {{"status", "loading"}}, 503);
  const std::string loss = parts->engine->loss();
  if (!loss.empty()) {
    return HttpServer::answer(response, {{"status", "lost"}, {"reason", loss}}, 503);
  }
  HttpServer::answer(response, {{"status", "ok"}});
}

// Sends the events in chunks. The run is cancelled when the response ends, sent or not.
void answer_stream(std::shared_ptr<CompletionRun> run, Response& response) {
  response.set_header("Cache-Control", "no-cache");
  response.set_header("X-Accel-Buffering", "no");  // of nginx, which would hold events back
  response.set_chunked_content_provider(
      "text/event-stream", [run](std::size_t, httplib::DataSink& sink) {
        const bool sent = run->stream(
            [&](const std::string& event) { return sink.write(event.data(), event.size()); },
            [] { return HttpServer::client_left(); });
        current_record().completion = run->figures();
        current_record().was_cut = !sent;
        if (sent) sink.done();
        return sent;
      });
}

void answer_completion(const ApiParts& parts, const Request& request, Response& response,
                       CompletionKind kind) {
  std::shared_ptr<CompletionRun> run = parts.completions->start(request.body, kind);
  if (run->is_stream()) return answer_stream(std::move(run), response);
  const json reply = run->complete([] { return HttpServer::client_left(); });
  current_record().completion = run->figures();
  current_record().was_cut = reply.is_null();
  if (!reply.is_null()) HttpServer::answer(response, reply);
}

void answer_load(const ApiParts& parts, const Request& request, Response& response) {
  const RequestJson body = parse_request_body(request.body);
  RequestFields fields(body);
  fields.required("lora_name");
  fields.required("lora_path");
  const std::string name = fields.text("lora_name").value();
  const std::string path = fields.text("lora_path").value();
  fields.accept_only("load_inplace", false);
  fields.refuse_others();
  if (!parts.load_adapter) {
    throw RequestError({.status = 403, .code = "forbidden"},
                       "this server does not load adapters for its clients");
  }
  parts.load_adapter(name, path);
  HttpServer::answer(response, {{"status", "loaded"}, {"lora_name", name}});
}

void answer_unload(const ApiParts& parts, const Request& request, Response& response) {
  const RequestJson body = parse_request_body(request.body);
  RequestFields fields(body);
  fields.required("lora_name");
  const std::string name = fields.text("lora_name").value();
  fields.ignore({"lora_int_id"});
  fields.refuse_others();
  if (!parts.unload_adapter) {
    throw RequestError({.status = 403, .code = "forbidden"},
                       "this server does not unload adapters for its clients");
  }
  parts.unload_adapter(name);
  HttpServer::answer(response, {{"status", "unloaded"}, {"lora_name", name}});
}

void answer_tokenizer_info(const ApiParts& parts, Response& response) {
  if (!parts.describes_tokenizer) {
    throw RequestError({.status = 403, .code = "forbidden"},
                       "this server does not describe its tokenizer to its clients");
  }
  HttpServer::answer(response, parts.completions->tokenizer_info());
}

void add_generation(HttpServer& server, const Parts& parts) {
  const auto post = [&](const char* path, auto answer) {
    server.Post(path, [&parts, answer](const Request& request, Response& response) {
      answer(loaded(parts), request, response);
    });
  };
  post("/v1/completions", [](const ApiParts& ready, const Request& request, Response& response) {
    answer_completion(ready, request, response, CompletionKind::text);
  });
  post("/v1/chat/completions",
       [](const ApiParts& ready, const Request& request, Response& response) {
         answer_completion(ready, request, response, CompletionKind::chat);
       });
  post("/tokenize", [](const ApiParts& ready, const Request& request, Response& response) {
    HttpServer::answer(response, ready.completions->tokenize(request.body));
  });
  post("/detokenize", [](const ApiParts& ready, const Request& request, Response& response) {
    HttpServer::answer(response, ready.completions->detokenize(request.body));
  });
  post("/v1/embeddings", [](const ApiParts& ready, const Request& request, Response& response) {
    if (!ready.embed) {
      throw RequestError({.code = "unsupported"}, "this server does not embed texts");
    }
    HttpServer::answer(response, ready.embed(request.body));
  });
  post("/v1/load_lora_adapter", answer_load);
  post("/v1/unload_lora_adapter", answer_unload);
}

void add_information(HttpServer& server, const Parts& parts) {
  server.Get("/", answer_page);
  server.Get("/health", [&parts](const Request&, Response& response) {
    answer_health(parts.load(), response);
  });
  server.Get("/metrics", [&parts](const Request&, Response& response) {
    const ApiParts& ready = loaded(parts);
    response.set_content(ready.metrics->text(ready.engine->statistics()),
                         "text/plain; version=0.0.4; charset=utf-8");
  });
  server.Get("/tokenizer_info", [&parts](const Request&, Response& response) {
    answer_tokenizer_info(loaded(parts), response);
  });
  server.Get("/v1/models", [&parts](const Request&, Response& response) {
    HttpServer::answer(response, loaded(parts).models->list());
  });
  // A bounded length, because the library matches by std::regex, which recurses for each character.
  server.Get("/v1/models/(.{1,128})", [&parts](const Request& request, Response& response) {
    HttpServer::answer(response, loaded(parts).models->describe(request.matches[1].str()));
  });
}

}  // namespace

RequestRecord& current_record() {
  static thread_local RequestRecord record;
  return record;
}

void add_routes(HttpServer& server, const std::atomic<const ApiParts*>& parts) {
  add_information(server, parts);
  add_generation(server, parts);
}

}  // namespace clora
