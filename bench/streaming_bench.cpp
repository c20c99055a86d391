// streaming/fused/text/N: converts N tokens of the demo model's vocabulary to text one by one, as
// in streaming; the time is per token. It is the cost that streaming adds to a decode step.
#include "bench/support/demo_model.hpp"
#include "bench/support/op_bench.hpp"
#include "clora/model/text/tokenizer.hpp"
#include "clora/model/text/tokenizer_files.hpp"

namespace clora::bench {
namespace {

constexpr const char* kText =
    "Streaming turns every token into the characters that are complete by now: naïve café, 3.14 €, "
    "日本語のテキスト, 👩‍🚀 and\n\tindented code { return 0; }. ";

std::string streamed(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void streaming(OpBench& bench, std::size_t tokens) {
  const Tokenizer tokenizer = load_tokenizer(require_demo_model());
  std::string text;
  std::vector<std::int32_t> ids;
  for (; ids.size() < tokens; ids = tokenizer.encode(text)) text += kText;
  const bool right = streamed(tokenizer, ids) == text;
  ids.resize(tokens);
  bench.on_host([=] { benchmark::DoNotOptimize(streamed(tokenizer, ids)); }, right ? 0 : 1, tokens);
}

const bool kAdded = add_family([] {
  constexpr std::size_t kTokens = 1024;
  add({.op = "streaming", .type = "text", .shape = {kTokens}}, streaming, kTokens);
});

}  // namespace
}  // namespace clora::bench
