// clora generate --prompt-cache: what is computed of a prompt is kept in a file.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;
using testing::IsEmpty;
using Ids = std::vector<int>;

class PromptCache : public testing::Test {
 protected:
  PromptCache() { test::write_tiny_chat_model(folder_ / "model"); }

  static Ids prompt(std::size_t count, int first = 20) {
    Ids ids(count);
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  }
  ProgramResult run(const Ids& prompt, const std::vector<std::string>& options = {}) {
    std::vector<std::string> all{
        "generate",     "--model", folder_ / "model", "--json",
        "--max-tokens", "6",       "--prompt-ids",    fmt::format("{}", fmt::join(prompt, ","))};
    all.insert(all.end(), options.begin(), options.end());
    return run_clora(all);
  }
  ProgramResult run_cached(const Ids& prompt, std::vector<std::string> options = {}) {
    options.insert(options.end(), {"--prompt-cache", file_});
    return run(prompt, options);
  }
  static nlohmann::json reply(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().at(0);
  }
  int cached_tokens(const Ids& prompt) {
    return reply(run_cached(prompt)).at("cached_tokens").get<int>();
  }

  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "prompt.cache";
};

TEST_F(PromptCache, IsReadByTheNextRunWhoseReplyIsTheSame) {
  const nlohmann::json want = reply(run(prompt(40)));
  const nlohmann::json first = reply(run_cached(prompt(40)));
  EXPECT_EQ(first["cached_tokens"], 0);
  EXPECT_EQ(first["ids"], want["ids"]);
  const std::string saved = test::read_file(file_);
  const nlohmann::json second = reply(run_cached(prompt(40)));
  EXPECT_EQ(second["cached_tokens"], 32) << "full pages of 16";
  EXPECT_EQ(second["ids"], want["ids"]);
  EXPECT_EQ(test::read_file(file_), saved);
}

TEST_F(PromptCache, IsOfTheLastPromptThatDiffered) {
  EXPECT_EQ(cached_tokens(prompt(40)), 0);
  EXPECT_EQ(cached_tokens(prompt(60)), 32);
  EXPECT_EQ(cached_tokens(prompt(60)), 48) << "the longer one was saved";
  Ids other = prompt(60);
  other[20] = 7;
  EXPECT_EQ(cached_tokens(other), 16);
  EXPECT_EQ(cached_tokens(other), 48);
  EXPECT_EQ(cached_tokens(prompt(60)), 16);
  EXPECT_EQ(cached_tokens(prompt(16)), 0) << "the last token is computed in any case";
  EXPECT_EQ(cached_tokens(prompt(60)), 48) << "a shorter prompt did not replace the file";
}

TEST_F(PromptCache, MayBeLongerThanThePromptAndThenStaysAsItIs) {
  reply(run_cached(prompt(100)));
  const std::string saved = test::read_file(file_);
  EXPECT_EQ(reply(run_cached(prompt(20)))["ids"], reply(run(prompt(20)))["ids"]);
  EXPECT_EQ(cached_tokens(prompt(20)), 16);
  EXPECT_EQ(cached_tokens(prompt(32)), 16) << "the last token is computed in any case";
  EXPECT_EQ(test::read_file(file_), saved);
}

TEST_F(PromptCache, ThatDoesNotFitIsRefusedAndNotReplaced) {
  const auto expect_refused = [&](const ProgramResult& result, const std::string& words) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_THAT(result.err, HasSubstr("or give another one to --prompt-cache"));
  };
  reply(run_cached(prompt(40)));
  const std::string saved = test::read_file(file_);
  expect_refused(run_cached(prompt(40), {"--kv-cache-type", "f16"}), "type of the KV cache was");
  EXPECT_EQ(test::read_file(file_), saved);
  test::write_file(file_, "the text of a book");
  expect_refused(run_cached(prompt(40)), file_);
  EXPECT_EQ(test::read_file(file_), "the text of a book");
}

TEST_F(PromptCache, ThatCannotBeWrittenIsAWarning) {
  const ProgramResult no_page = run_cached(prompt(15));
  EXPECT_EQ(reply(no_page)["ids"], reply(run(prompt(15)))["ids"]);
  EXPECT_THAT(no_page.err, HasSubstr("the prompt was not saved"));
  EXPECT_FALSE(std::filesystem::exists(file_));
  file_ = folder_ / "absent" / "prompt.cache";
  const ProgramResult no_folder = run_cached(prompt(40));
  EXPECT_EQ(reply(no_folder)["ids"].size(), 6U);
  EXPECT_THAT(no_folder.err, HasSubstr("the prompt was not saved"));
}

}  // namespace
}  // namespace clora
