// search ENCODER TEXTS QUERY: the lines of a file whose meaning is nearest to a query
// (docs/embedding.md).
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "clora/model/embedding/embedder.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/error.hpp"

namespace {

std::vector<std::string> lines_of(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void search(const char* path, const char* texts, const char* query) {
  clora::ContextConfig config;
  config.precision = clora::Precision::f32;
  config.cache_folder = clora::default_cache_folder();
  clora::Context context(config);
  clora::LanguageModel model(context, clora::WeightFiles::open(path));
  clora::Embedder embedder(model, nullptr, {.pooling = clora::Pooling::mean});

  const clora::Tokenizer tokenizer = clora::load_tokenizer(path);
  const auto longest = static_cast<std::size_t>(embedder.max_length());
  std::vector<std::string> lines = lines_of(texts);
  std::vector<std::vector<std::int32_t>> ids{tokenizer.encode_at_most(query, longest).ids};
  for (const std::string& line : lines) {
    ids.push_back(tokenizer.encode_at_most(line, longest).ids);
  }
  const std::vector<float> vectors = embedder.embed(ids);  // the query's is the first

  const auto width = static_cast<std::ptrdiff_t>(embedder.width());
  std::vector<std::pair<float, std::size_t>> ranked;  // vectors have length 1: products are cosines
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto vector = vectors.begin() + static_cast<std::ptrdiff_t>(i + 1) * width;
    ranked.emplace_back(std::inner_product(vector, vector + width, vectors.begin(), 0.0F), i);
  }
  std::ranges::sort(ranked, std::greater<>());
  for (std::size_t i = 0; i < std::min<std::size_t>(3, ranked.size()); ++i) {
    std::printf("%.4f  %s\n", static_cast<double>(ranked[i].first),
                lines[ranked[i].second].c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    search(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const clora::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unexpected: %s\n", error.what());
  }
  return 1;
}
