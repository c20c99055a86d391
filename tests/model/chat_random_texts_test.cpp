// Published chat templates, and their renderings of random conversations by Jinja. ctest downloads
// and renders them before, as the test random_texts (tests/reference/random_texts.py).
#include <gtest/gtest.h>

#include "tests/support/chat_renderings.hpp"
#include "tests/support/program.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

fs::path random_texts(const char* name) { return test::built_program("tests/random_texts") / name; }

TEST(ChatRandomTexts, AreRenderedAsJinjaRendersThem) {
  EXPECT_GT(test::expect_renderings(random_texts("conversations.json"), test::with_chat_marks()),
            5000u);
}

// The folder of a template names its style, or is "others", which have no renderings.
TEST(ChatRandomTexts, HaveTheirTemplatesRenderedAsJinjaRendersThem) {
  const Tokenizer tokenizer = test::with_chat_marks();
  const auto file = nlohmann::json::parse(test::read_file(random_texts("conversations.json")));
  std::size_t known = 0, others = 0;
  for (const auto& entry : fs::recursive_directory_iterator(random_texts("chat_templates"))) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string style = entry.path().parent_path().filename().string();
    const ChatTemplate chat = ChatTemplate::parse(test::read_file(entry.path()), tokenizer);
    const bool has_rows = file.at("renderings").contains(style);
    if (has_rows) test::expect_rows(chat, style, file, file.at("renderings")[style]);
    ++(has_rows ? known : others);
  }
  EXPECT_GE(known, 7u);
  EXPECT_GE(others, 25u);
}

}  // namespace
}  // namespace clora
