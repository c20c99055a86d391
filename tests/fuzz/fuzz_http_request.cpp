// A request to a server: its head, and its body as a completion request, as one for embeddings, and
// as a reply with calls of tools.
#include "clora/serving/completion_request.hpp"
#include "clora/serving/http_head.hpp"
#include "serving/embedding_request.hpp"
#include "serving/tool_calls.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {
namespace {

constexpr std::size_t kMaxBody = std::size_t{4} << 20U;

void read_body(std::string_view body) {
  for (const CompletionKind kind : {CompletionKind::text, CompletionKind::chat})
    attempt([&] { use(parse_completion_request(body, kind).model); });
  attempt([&] { use(parse_embedding_request(body).model); });
  for (const ToolCallForm form :
       {ToolCallForm::hermes, ToolCallForm::llama3, ToolCallForm::mistral}) {
    attempt([&] {
      ToolCallReader reader(form, {"find"});
      use(reader.push(body.substr(0, body.size() / 2)) + reader.push(body.substr(body.size() / 2)));
      use(reader.finish().content);
    });
  }
}

}  // namespace

void read_http_request(std::string_view input) {
  const auto length = http_head_length(input);
  if (length) attempt([&] { use(read_http_head(input.substr(0, *length), kMaxBody).text); });
  read_body(length ? input.substr(*length) : input);
}

std::vector<std::string> http_request_seeds() {
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  return {head + "Content-Length: 60\r\n\r\n" +
              R"({"model": "base", "prompt": "the", "max_tokens": 5, "n": 1, "top_p": 0.9,)"
              R"("temperature": 0, "seed": 7, "stop": ["\n", "x"], "stream": false})",
          head +
              "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\nRange: bytes=0-1\r\n\r\n" +
              R"({"messages": [{"role": "system", "content": "s"}, {"role": "user",)"
              R"("content": [{"type": "text", "text": "u"}]}], "stream": true,)"
              R"("stream_options": {"include_usage": true}, "max_completion_tokens": 9})",
          "GET /v1/models HTTP/1.1\r\n\r\n",
          R"({"model": "\u00ff", "prompt": ["a"], "logit_bias": {"5": 1}, "top_k": 3})",
          R"(<tool_call>{"name": "find", "arguments": {"a": 1}}</tool_call>)",
          R"([{"name": "find", "arguments": {}}])",
          R"({"name": "find", "parameters": {}}; {"name": "find", "parameters": {}})"};
}

}  // namespace clora::fuzz
