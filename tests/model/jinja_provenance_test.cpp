// Origins of rendered bytes, and the limits of a rendering.
#include <gtest/gtest.h>

#include "model/text/jinja/template.hpp"
#include "tests/support/test_files.hpp"

namespace clora::jinja {
namespace {

// "a" and "b" are inputs 0 and 1.
Text rendered(const std::string& text, const Limits& limits = {}) {
  Dict variables;
  variables.set("a", Text("Hello, World", {.source = 0}));
  variables.set("b", Text("\"x\"\n", {.source = 1}));
  variables.set("l", value_of(nlohmann::ordered_json{"p", "q"}, {.source = 2}));
  return Template::parse(text).render(variables, limits);
}

// The output with a mark before each run: T for the template's, a digit for an input's, and g
// behind it inside of {% generation %}.
std::string marked(const std::string& text) {
  const Text out = rendered(text);
  std::string marks;
  for (const Run& run : out.runs()) {
    marks += run.origin.source < 0 ? "T" : std::to_string(run.origin.source);
    marks += run.origin.generated ? "g<" : "<";
    marks += out.bytes().substr(run.begin, run.end - run.begin) + ">";
  }
  return marks;
}

TEST(JinjaProvenance, IsKeptThroughConcatenationsAndFilters) {
  EXPECT_EQ(marked("x{{ a }}y"), "T<x>0<Hello, World>T<y>");
  EXPECT_EQ(marked("{{ 'x' + a[0:5] ~ 1 ~ b | trim }}"), "T<x>0<Hello>T<1>1<\"x\">");
  EXPECT_EQ(marked("{{ (a ~ '!') | upper }}"), "0<HELLO, WORLD>T<!>");
  EXPECT_EQ(marked("{{ a.replace('World', b.strip()) }}"), "0<Hello, >1<\"x\">");
  EXPECT_EQ(marked("{{ a.split(', ')[1] }}{{ ', '.join(l) }}"), "0<World>2<p>T<, >2<q>");
  EXPECT_EQ(marked("{{ b | tojson }}"), "1<\"\\\"x\\\"\\n\">");
  EXPECT_EQ(marked("{{ {'k': a} | tojson }}"), "T<{\"k\": >0<\"Hello, World\">T<}>");
  EXPECT_EQ(marked("{{ '%s:%s' % (a, 5) }}"), "0<Hello, World>T<:5>");
  EXPECT_EQ(marked("{{ '{}!'.format(a) }}"), "0<Hello, World>T<!>");
  EXPECT_EQ(marked("{{ l }}"), "T<['>2<p>T<', '>2<q>T<']>");
  EXPECT_EQ(marked("{% set c %}({{ a }}){% endset %}{{ c[0:3] }}"), "T<(>0<He>");
  EXPECT_EQ(marked("{% macro m(x) %}<{{ x }}{% endmacro %}{{ m(a) | lower }}"),
            "T<<>0<hello, world>");
}

TEST(JinjaProvenance, MarksWhatIsInsideOfAGenerationBlock) {
  EXPECT_EQ(marked("x{% generation %}{{ a }}!{% endgeneration %}y"),
            "T<x>0g<Hello, World>Tg<!>T<y>");
}

TEST(JinjaLimits, BoundHostileTemplates) {
  const auto refuses = [](const std::string& text, const char* part) {
    SCOPED_TRACE(text.substr(0, 80));
    CLORA_EXPECT_ERROR(rendered(text), ErrorCode::invalid_argument, part);
  };
  refuses("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests evaluations deeper");
  refuses("{% set n = namespace(x=1) %}{% for i in range(300) %}{% set n.x = [n.x] %}{% endfor %}",
          "nest deeper than 100");
  refuses(
      "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}"
      "{% endfor %}",
      "more than");
  refuses("{{ 'a' * 1000000000 }}", "more than");
  refuses("{{ '%999999999d' % 1 }}", "width");
  refuses("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
          "takes more than");
  refuses(
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
      "{% endfor %}{{ n.x == n.x | list }}",
      "too many steps");
}

TEST(JinjaLimits, BoundTheNestingOfTheText) {
  const auto refuses = [](const std::string& text) {
    CLORA_EXPECT_ERROR(Template::parse(text), ErrorCode::unsupported, "nests deeper than");
  };
  refuses("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}");
  refuses("{{ " + std::string(100000, '-') + "1 }}");
  std::string chain = "{{ 1", ifs, filters = "{{ 1";
  for (int i = 0; i < 5000; ++i) chain += " + 1", ifs += "{% if 1 %}", filters += "|abs";
  refuses(chain + " }}");
  refuses(ifs);
  refuses(filters + " }}");
}

TEST(JinjaLimits, LetLongChainsOfNamespacesEnd) {
  EXPECT_EQ(rendered("{% set n = namespace(x=0) %}{% for i in range(50000) %}"
                     "{% set n.x = namespace(y=n.x) %}{% endfor %}{% set n.x = n %}ok")
                .bytes(),
            "ok");
  EXPECT_EQ(rendered("{% set n = namespace(m=0) %}{% for i in range(50000) %}{% set old = n.m %}"
                     "{% macro m() %}{{ old }}{% endmacro %}{% set n.m = m %}{% endfor %}ok")
                .bytes(),
            "ok");
}

}  // namespace
}  // namespace clora::jinja
