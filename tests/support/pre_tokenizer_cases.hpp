// Cases of Hugging Face's pre-tokenizers, as tests/reference/pre_tokenizers.py writes them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "model/text/pre_tokenizers.hpp"
#include "model/text/regex_splitter.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {

// Returns the bytes of each piece.
inline std::vector<std::size_t> piece_lengths(const PreTokenizer& pre, std::string_view text) {
  std::vector<std::string_view> pieces{text};
  for (const std::string& pattern : pre.patterns) {
    std::vector<std::string_view> finer;
    const RegexSplitter splitter(pattern);
    for (const std::string_view piece : pieces) splitter.split(piece, finer);
    pieces = std::move(finer);
  }
  std::vector<std::size_t> lengths;
  for (const std::string_view piece : pieces) lengths.push_back(piece.size());
  return lengths;
}

// Expects that each pre-tokeniser of the file splits its texts as Hugging Face's does and, if it is
// a published pattern, has that pattern. Returns the names.
inline std::set<std::string> expect_pre_tokenizers(const std::filesystem::path& path) {
  const auto file = nlohmann::json::parse(read_file(path));
  const auto texts = file.at("texts").get<std::vector<std::string>>();
  std::set<std::string> names;
  for (const nlohmann::json& each : file.at("pre_tokenizers")) {
    const auto lengths = each.at("lengths").get<std::vector<std::vector<std::size_t>>>();
    EXPECT_EQ(lengths.size(), texts.size());
    for (const auto& name : each.at("names").get<std::vector<std::string>>()) {
      const PreTokenizer pre = pre_tokenizer_of(name);
      const nlohmann::json& patterns = each.at("patterns");
      if (!patterns.is_null()) EXPECT_EQ(nlohmann::json(pre.patterns), patterns) << name;
      if (!names.insert(name).second) ADD_FAILURE() << name << " is listed twice";
      for (std::size_t i = 0; i < texts.size(); ++i)
        EXPECT_EQ(piece_lengths(pre, texts[i]), lengths[i]) << name << ": " << texts[i];
    }
  }
  return names;
}

}  // namespace clora::test
