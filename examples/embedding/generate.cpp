// generate MODEL PROMPT [ADAPTER]: embeds clora in a C++ program (docs/embedding.md).
#include <cstdio>
#include <exception>
#include <optional>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/error.hpp"

namespace {

clora::ContextConfig configuration() {
  clora::ContextConfig config;
  config.device = "";               // the first GPU, else the first device; or "cpu", "gpu", a name
  config.memory_limit_share = 0.5;  // of the device; the rest is for others
  config.cache_folder = clora::default_cache_folder();  // for built programs; empty: no cache
  config.hooks.log = [](clora::LogLevel level, std::string_view message) {
    if (level < clora::LogLevel::warning) return;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  };
  return config;
}

void generate(const char* path, const char* text, const char* adapter_path) {
  clora::Context context(configuration());
  clora::LanguageModel model(context, clora::WeightFiles::open(path));
  std::optional<clora::Adapter> adapter;
  if (adapter_path != nullptr) {  // a folder of PEFT or mlx-lm, or a GGUF file
    adapter = clora::load_adapter(context, adapter_path, model.config());
  }
  clora::Generator generator(model, adapter ? &*adapter : nullptr, /*max_positions=*/256);

  const clora::Tokenizer tokenizer = clora::load_tokenizer(path);
  clora::StreamDecoder decoder(tokenizer);  // a token may be a part of a character
  const clora::GenerationConfig config{.max_tokens = 32, .end_ids = tokenizer.end_of_generation()};
  generator.generate(tokenizer.encode(text), config, [&](std::int32_t id) {
    std::fputs(decoder.push(id).c_str(), stdout);
    return true;  // false ends the reply
  });
  std::printf("%s\n", decoder.finish().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    generate(argv[1], argv[2], argc > 3 ? argv[3] : nullptr);
    return 0;
  } catch (const clora::Error& error) {  // has code() and opencl_status() for programs
    std::fprintf(stderr, "%s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unexpected: %s\n", error.what());
  }
  return 1;
}
