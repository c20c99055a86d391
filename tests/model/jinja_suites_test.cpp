// Suites of other projects and published templates, as tests/reference/chat_suites.py extracts and
// renders them: cases {template, variables, expected}, where null is a conversation that jinja2
// refuses, which an extension of the suite's project may render. CLORA_CHAT_SUITES names their
// folder; the default is chat_templates among the test data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "model/text/jinja/date.hpp"
#include "model/text/jinja/function.hpp"
#include "model/text/jinja/parameters.hpp"
#include "model/text/jinja/template.hpp"
#include "tests/support/test_files.hpp"

namespace clora::jinja {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

fs::path suites_folder() {
  if (const char* named = std::getenv("CLORA_CHAT_SUITES")) return named;
  return test::test_data("chat_templates");
}

Json rendered(const Template& parsed, const Json& variables) {
  Dict dict = *value_of(variables, {.source = 0}).dict();
  dict.set("strftime_now", function_value("strftime_now", [](Interpreter&, const Arguments& given) {
             const Parameters p("strftime_now", given, {"format"});
             return Value(formatted_date({2024, 7, 26}, p.text(0).bytes()));
           }));
  return parsed.render(dict).bytes();
}

struct Outcome {
  Json text;
  std::string error;
};

Outcome outcome_of(const Json& file, const Json& item) {
  try {
    const std::string text =
        item["template"].is_string()
            ? item["template"].get<std::string>()
            : file["templates"][item["template"][0].get<std::string>()].get<std::string>();
    return {rendered(Template::parse(text), item["variables"]), {}};
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

// The text around its first difference from another one.
std::string around(const Json& value, const Json& other) {
  if (!value.is_string() || !other.is_string()) return value.dump().substr(0, 200);
  const auto text = value.get<std::string>(), reference = other.get<std::string>();
  const std::size_t at =
      static_cast<std::size_t>(std::ranges::mismatch(text, reference).in1 - text.begin());
  return "at byte " + std::to_string(at) + ": ..." +
         text.substr(at - std::min<std::size_t>(at, 40), 100);
}

TEST(JinjaSuites, AreRenderedAsJinjaRendersThem) {
  const fs::path folder = suites_folder();
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no chat suites in " << folder;
  std::size_t count = 0, different = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json file = Json::parse(test::read_file(entry.path()));
    std::size_t equal = 0;
    for (const Json& item : file["cases"]) {
      const Outcome outcome = outcome_of(file, item);
      ++count;
      const bool extends = item["expected"].is_null() && outcome.text == item["theirs"];
      if (outcome.text == item["expected"] || extends) {
        ++equal;
      } else if (++different <= 60) {
        ADD_FAILURE() << entry.path().filename() << ": " << item["name"] << "\nours     "
                      << around(outcome.text, item["expected"]) << " " << outcome.error
                      << "\nexpected " << around(item["expected"], outcome.text);
      }
    }
    std::cout << entry.path().filename() << ": " << equal << " of " << file["cases"].size()
              << " cases are equal\n";
  }
  EXPECT_EQ(different, 0u);
  EXPECT_GT(count, 0u);
}

}  // namespace
}  // namespace clora::jinja
