#include "serving/embedding_request.hpp"

#include <algorithm>

#include "serving/prompt_fields.hpp"
#include "serving/request_body.hpp"

namespace clora {
namespace {

using nlohmann::json;

json vector_json(std::span<const float> vector, bool is_base64) {
  if (is_base64) return base64_of(std::as_bytes(vector));
  return std::vector<float>(vector.begin(), vector.end());
}

Pooling pooling_of(RequestFields& fields) {
  const std::string name = fields.text("pooling").value_or("last");
  if (name != "last" && name != "mean") fields.wrong("pooling", "last or mean", name);
  return name == "last" ? Pooling::last_token : Pooling::mean;
}

bool is_base64(RequestFields& fields) {
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    fields.wrong("encoding_format", "float or base64", format);
  }
  return format == "base64";
}

}  // namespace

EmbeddingRequest parse_embedding_request(std::string_view body) {
  const RequestJson value = parse_request_body(body);
  RequestFields fields(value);
  EmbeddingRequest request;
  request.model = fields.text("model").value_or("");
  request.inputs = prompts_of(fields, "input", kMaxEmbeddingInputs);
  request.pooling = pooling_of(fields);
  request.is_base64 = is_base64(fields);
  fields.accept_only("dimensions", nullptr);
  fields.ignore({"user"});
  fields.refuse_others();
  return request;
}

json embedding_reply(const EmbeddingRequest& request, const std::string& model,
                     std::span<const float> vectors, std::int64_t tokens) {
  const std::size_t width = vectors.size() / request.inputs.size();
  json data = json::array();
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    data.push_back(
        {{"object", "embedding"},
         {"index", i},
         {"embedding", vector_json(vectors.subspan(i * width, width), request.is_base64)}});
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

std::string base64_of(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8U | (i < count ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[bits >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return text;
}

}  // namespace clora
