// Checks of self-contained HTML pages.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace clora::test {

// Expects that every element is closed, in order, and that the page holds only elements, text and
// the five entities of XML.
inline void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z][a-z0-9]*)((?: [a-zA-Z0-9-]+=\"[^\"<>]*\")*)(/?)>");
  std::size_t end = page.find('\n') + 1;  // after the doctype
  const auto expect_text = [](const std::string& text) {
    EXPECT_EQ(text.find_first_of("<>"), std::string::npos) << text;
    EXPECT_TRUE(std::regex_match(text, std::regex("([^&]|&(amp|lt|gt|quot);)*"))) << text;
  };
  for (std::sregex_iterator at(page.begin() + static_cast<std::ptrdiff_t>(end), page.end(), tag);
       at != std::sregex_iterator(); ++at) {
    const auto begin = page.size() - static_cast<std::size_t>(at->suffix().length()) -
                       static_cast<std::size_t>(at->length());
    const std::string name = (*at)[2];
    const bool is_code = !open.empty() && (open.back() == "style" || open.back() == "script");
    if (!is_code) expect_text(page.substr(end, begin - end));
    end = begin + static_cast<std::size_t>(at->length());
    if ((*at)[1] == "/") {
      ASSERT_FALSE(open.empty()) << name;
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    } else if ((*at)[4] == "") {
      open.push_back(name);
    }
  }
  EXPECT_THAT(open, testing::SizeIs(0));
  EXPECT_EQ(page.substr(end), "\n");
}

// Expects that the page refers to nothing outside of itself: every link is to a part of the page.
inline void expect_self_contained(const std::string& page) {
  // The namespace of SVG is a name; the script needs it to draw.
  const std::string own =
      std::regex_replace(page, std::regex("http://www\\.w3\\.org/2000/svg"), "");
  for (const char* outside : {"http", "src=", "url(", "@import", "<link", "<img", "fetch("}) {
    EXPECT_THAT(own, testing::Not(testing::HasSubstr(outside)));
  }
  const std::regex link("href=\"([^\"]*)\"");
  for (std::sregex_iterator at(page.begin(), page.end(), link); at != std::sregex_iterator();
       ++at) {
    EXPECT_EQ((*at)[1].str().front(), '#') << (*at)[1];
    EXPECT_THAT(page, testing::HasSubstr("id=\"" + (*at)[1].str().substr(1) + "\""));
  }
}

}  // namespace clora::test
