// Cases of the template engine: templates with their renderings by jinja2.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "model/text/jinja/template.hpp"

namespace clora::test {

struct JinjaCase {
  const char* text;
  const char* expected;
};

// The variables of the cases.
inline jinja::Dict jinja_variables() {
  const auto json = nlohmann::ordered_json::parse(R"({"n": null
, "i": 7
, "x": 1.5
, "s": " Hello World "
, "l": [3, 1, 2]
, "d": {"b": 1
, "a": [1
, "two", null, true, 0.1]}
, "m": [{"role": "user"
, "content": "Hi"
, "k": {"z": 2}}, {"role": "assistant"
, "content": "Yo"
, "k": {"z": 1}}]
, "e": "a<b>&\"'é\n"})");
  return *jinja::value_of(json, {.source = 0}).dict();
}

inline std::string rendered(const char* text) {
  return jinja::Template::parse(text).render(jinja_variables()).bytes();
}

inline void expect_renderings(std::span<const JinjaCase> cases) {
  for (const JinjaCase& one : cases) {
    SCOPED_TRACE(one.text);
    EXPECT_NO_THROW(EXPECT_EQ(rendered(one.text), one.expected));
  }
}

}  // namespace clora::test
