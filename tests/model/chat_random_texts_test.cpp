// Published chat templates, and their renderings of random conversations by Jinja. ctest downloads
// and renders them before, as the test random_texts (tests/reference/random_texts.py).
#include <gtest/gtest.h>

#include "model/text/jinja_text.hpp"
#include "model/text/known_chat_styles.hpp"
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

// The folder of a template names its style, or is "others" for those that are not supported.
TEST(ChatRandomTexts, HaveTheirTemplatesRecognisedAndNoOthers) {
  const Tokenizer tokenizer = test::with_chat_marks();
  std::size_t known = 0, others = 0;
  for (const auto& entry : fs::recursive_directory_iterator(random_texts("chat_templates"))) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string text = test::read_file(entry.path());
    const std::string style = entry.path().parent_path().filename().string();
    const ChatStyle* found = find_style_of_template(jinja_fingerprint(text));
    if (style == "others") {
      EXPECT_EQ(found, nullptr) << entry.path();
      CLORA_EXPECT_ERROR(ChatTemplate::recognise(text, tokenizer), ErrorCode::unsupported,
                         "in the model's files is not supported");
      ++others;
    } else {
      ASSERT_NE(found, nullptr) << entry.path();
      EXPECT_EQ(found->name, style) << entry.path();
      ++known;
    }
  }
  EXPECT_GE(known, 7u);
  EXPECT_GE(others, 25u);
}

}  // namespace
}  // namespace clora
