// A text of any bytes, split by a pre-tokeniser of GGUF files.
#include <stdexcept>

#include "model/text/pre_tokenizers.hpp"
#include "model/text/regex_splitter.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {
namespace {

using Splitters = std::vector<RegexSplitter>;

std::vector<Splitters> all_splitters() {
  std::vector<Splitters> all;
  for (const std::string_view name : pre_tokenizer_names()) {
    Splitters& splitters = all.emplace_back();
    for (const std::string& pattern : pre_tokenizer_of(name).patterns)
      splitters.emplace_back(pattern);
  }
  return all;
}

void split(const Splitters& splitters, std::string_view text) {
  std::vector<std::string_view> pieces{text}, finer;
  for (const RegexSplitter& splitter : splitters) {
    finer.clear();
    for (const std::string_view piece : pieces) splitter.split(piece, finer);
    pieces.swap(finer);
  }
  std::string whole;
  for (const std::string_view piece : pieces) whole += piece;
  if (whole != text) throw std::logic_error("the pieces are not the text");
}

}  // namespace

void read_pre_tokenizer(std::string_view input) {
  static const std::vector<Splitters> all = all_splitters();
  if (input.empty()) return;
  const auto chosen = static_cast<unsigned char>(input.front()) % all.size();
  attempt([&] { split(all[chosen], input.substr(1)); });
}

std::vector<std::string> pre_tokenizer_seeds() {
  std::vector<std::string> seeds;
  for (std::size_t i = 0; i < pre_tokenizer_names().size(); ++i)
    seeds.push_back(static_cast<char>(i) + std::string("We'LL  see 12345 HTTPServer/\r\n\n "
                                                       "caf\xC3\xA9 e\xCC\x81\t\xE6\xBC\xA2\xFF"));
  return seeds;
}

}  // namespace clora::fuzz
