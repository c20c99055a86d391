// Cases of Hugging Face's tokenizers, as tests/reference/added_tokens.py writes them: each is a
// text, its ids, and its ids if special tokens are plain text.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "model/text/tokenizer_json.hpp"
#include "model/text/tokenizer_json_writing.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::test {

// Expects that the tokenizer encodes each text as Hugging Face's does. `name` is for messages.
inline void expect_cases(const Tokenizer& tokenizer, const nlohmann::json& cases,
                         const std::string& name) {
  using Ids = std::vector<std::int32_t>;
  std::size_t different = 0;
  for (const nlohmann::json& each : cases) {
    const auto text = each[0].get<std::string>();
    for (const bool parse_special : {true, false}) {
      const Ids ids = tokenizer.encode(text, without_bos(parse_special));
      const Ids expected = each[parse_special ? 1 : 2].get<Ids>();
      if (ids == expected || ++different > 3) continue;
      ADD_FAILURE() << name << ", parse_special " << parse_special << ": " << each[0] << "\nours "
                    << nlohmann::json(ids) << "\nHugging Face's " << nlohmann::json(expected);
    }
  }
  EXPECT_GT(cases.size(), 0u) << name;
  EXPECT_EQ(different, 0u) << name;
}

// Expects the same of each tokenizer that the file contains along with its cases; where clora can
// write a tokenizer, also of the one written and read back.
inline void expect_tokenizers(const std::filesystem::path& path) {
  for (const nlohmann::json& each : nlohmann::json::parse(read_file(path))) {
    const std::string name = each.at("name");
    const TokenizerSpec spec = tokenizer_spec_from_json(each.at("tokenizer").dump());
    expect_cases(Tokenizer(spec), each.at("cases"), name);
    if (spec.algorithm != TokenizerAlgorithm::byte_level_bpe && name != "Prepend") continue;
    const Tokenizer written = tokenizer_from_json(tokenizer_json_of(spec));
    expect_cases(written, each.at("cases"), name + ", written and read");
  }
}

// The same for an encoder, whose cases (tests/reference/word_pieces.py) also have the ids with the
// special tokens before and after the text, and the text of these ids, without and with them, or
// null.
inline void expect_framed_cases(const Tokenizer& tokenizer, const nlohmann::json& cases,
                                const std::string& name) {
  expect_cases(tokenizer, cases, name);
  for (const nlohmann::json& each : cases) {
    const auto framed = each[3].get<std::vector<std::int32_t>>();
    EXPECT_EQ(tokenizer.encode(each[0].get<std::string>()), framed) << name << ": " << each[0];
    if (each[4].is_null()) continue;
    EXPECT_EQ(tokenizer.decode(framed), each[4].get<std::string>()) << name;
    EXPECT_EQ(tokenizer.decode(framed, {.keep_special = true}), each[5].get<std::string>()) << name;
  }
}

inline void expect_encoders(const nlohmann::json& tokenizers) {
  for (const nlohmann::json& each : tokenizers) {
    const std::string name = each.at("name");
    const TokenizerSpec spec = tokenizer_spec_from_json(each.at("tokenizer").dump());
    expect_framed_cases(Tokenizer(spec), each.at("cases"), name);
    const Tokenizer written =
        tokenizer_from_json(tokenizer_json_of(spec), tokenizer_config_json_of(spec));
    expect_framed_cases(written, each.at("cases"), name + ", written and read");
  }
}

}  // namespace clora::test
