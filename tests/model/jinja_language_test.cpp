// The language of chat templates: every expectation is what jinja2 renders with the settings of
// transformers.
#include <gtest/gtest.h>

#include "tests/support/jinja_cases.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::JinjaCase;

TEST(JinjaLanguage, StripsTheWhiteSpaceAroundTags) {
  constexpr JinjaCase kCases[] = {
      {"{% if true %}\nA\n{% endif %}\nB\n", "A\nB"},
      {"  {% if true %}  x\n  {% endif %}  y", "  x\n  y"},
      {"a  {{- 1 -}}  b", "a1b"},
      {"a {%- if true -%} b {%- endif -%} c", "abc"},
      {"{# c #}\nx {# d #}\ny", "x y"},
      {"  {#- c -#}  z", "z"},
      {"{%+ if true %}\n  {%+ endif %}x", "  x"},
      {"{% if true +%}\nx{% endif %}", "\nx"},
      {"{% raw %}\n{{ x }} {% if %}{% endraw %}\n!", "\n{{ x }} {% if %}!"},
      {"{%- raw -%} {{ a }} {%- endraw -%} b", "{{ a }}b"},
      {"a\r\nb\r\n\r\n", "a\nb\n"},
      {"x\n\n", "x\n"},
      {"{{ 1 }}\n{{ 2 }}\n", "1\n2"},
      {"\t{% set a = 1 %}\n\t{{ a }}", "\t1"},
  };
  test::expect_renderings(kCases);
}

TEST(JinjaLanguage, ReadsLiteralsAsPythonDoes) {
  constexpr JinjaCase kCases[] = {
      {"{{ 'a\\n\\t\\\\\\'\\x41\\u00e9\\101' }}", "a\n\t\\'A\303\251A"},
      {"{{ \"it's\" 'x' }}", "it'sx"},
      {"{{ 1_000 + 0x1F + 0b11 + 0o17 }}", "1049"},
      {"{{ 1.5e3 }} {{ 2e-7 }} {{ 1e16 }} {{ 123456789.125 }} {{ 0.1 + 0.2 }}",
       "1500.0 2e-07 1e+16 123456789.125 0.30000000000000004"},
      {"{{ [1, 'a', 2.0, none, true,] }}", "[1, 'a', 2.0, None, True]"},
      {"{{ (1,) }} {{ (1, 2) }} {{ () }}", "(1,) (1, 2) ()"},
      {"{{ {'a': 1, 2: \"it's\", 'b': {}} }}", "{'a': 1, 2: \"it's\", 'b': {}}"},
      {"{{ true }} {{ False }} {{ none }} {{ None }}", "True False None None"},
      {"{{ 'a\\'b\"c' | list }}", "['a', \"'\", 'b', '\"', 'c']"},
  };
  test::expect_renderings(kCases);
}

TEST(JinjaLanguage, CalculatesAsPythonDoes) {
  constexpr JinjaCase kCases[] = {
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }}",
       "3 -4 -2 2 3.5 3.0"},
      {"{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ -2 ** 2 }}", "1024 0.5 1.4142135623730951 4"},
      {"{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 1.0 }} {{ true + 1 }}", "3.0 0.5 2.0 2"},
      {"{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 2 * [1] }} {{ [1] + [2] }}", "ab ababab [1, 1] [1, 2]"},
      {"{{ 'a' ~ 1 ~ none ~ 1.0 ~ [1] }}", "a1None1.0[1]"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ "
       "'1' == 1 }}",
       "True False True True True False"},
      {"{{ 1 in [1] }} {{ 'b' in 'abc' }} {{ 'a' in d }} {{ 3 not in l }} {{ none in [none] }}",
       "True True True False True"},
      {"{{ 0 or 'x' }} {{ 1 and '' }}| {{ not 0 }} {{ not x }}", "x | True False"},
      {"{{ 'y' if i > 3 else 'n' }}{{ 'y' if i < 3 }}|", "y|"},
      {"{{ '%s has %d of %05.2f %5s|%-5s|%x %%' % ('a', 3, 2.5, 'r', 'l', 255) }}",
       "a has 3 of 02.50     r|l    |ff %"},
      {"{{ '%s' % 5 }} {{ '%(a)s' % {'a': 1} }}", "5 1"},
      {"{{ -i }} {{ +i }} {{ - 3 | abs }}", "-7 7 3"},
      {"{{ 1 if false }}|{{ [1, 2] == [1, 2.0] }}", "|True"},
  };
  test::expect_renderings(kCases);
}

TEST(JinjaLanguage, FindsAttributesItemsAndSlices) {
  constexpr JinjaCase kCases[] = {
      {"{{ d.a }} {{ d['a'][1] }} {{ d.b }} {{ d.missing }}| {{ d['missing'] is undefined }}",
       "[1, 'two', None, True, 0.1] two 1 | True"},
      {"{{ l[0] }} {{ l[-1] }} {{ l[9] is undefined }} {{ s[1] }} {{ l.1 }}", "3 2 True H 1"},
      {"{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ s[1:-1:2] }} {{ s[::-1] }} {{ l[5:] }} {{ "
       "'h\303\251llo'[1:3] }}",
       "[1, 2] [3, 1] [2, 1, 3] HloWrd  dlroW olleH  [] \303\251l"},
      {"{{ m[0].k.z }} {{ m[0]['k']['z'] }} {{ none.a is undefined }} {{ missing is defined }}",
       "2 2 True False"},
      {"{{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('b') }} {{ "
       "d.get('q', 5) }} {{ d.get('q') }}",
       "[('b', 1), ('a', [1, 'two', None, True, 0.1])] ['b', 'a'] [1, [1, 'two', None, True, 0.1]] "
       "1 5 None"},
      {"{{ d.a.index('two') }} {{ l.count(3) }}", "1 1"},
      {"{{ missing }}|{{ missing | default('x') }} {{ n | default('x') }} {{ '' | default('x', "
       "true) }}",
       "|x None x"},
  };
  test::expect_renderings(kCases);
}

TEST(JinjaLanguage, RunsStatements) {
  constexpr JinjaCase kCases[] = {
      {"{% for a in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ "
       "loop.last }}{{ loop.length }} {% endfor %}",
       "103TrueFalse3 212FalseFalse3 321FalseTrue3 "},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
       "b=1;a=[1, 'two', None, True, 0.1];"},
      {"{% for a in [] %}x{% else %}empty{% endfor %}", "empty"},
      {"{% for a in l if a > 1 %}{{ a }}{{ loop.length }}{% endfor %}", "3222"},
      {"{% for a in range(9) %}{% if a == 2 %}{% continue %}{% endif %}{% if a == 5 %}{% break "
       "%}{% endif %}{{ a }}{% endfor %}",
       "0134"},
      {"{% for a in [1, [2, [3]]] recursive %}{% if a is number %}{{ a }}@{{ loop.depth }} {% else "
       "%}{{ loop(a) }}{% endif %}{% endfor %}",
       "1@1 2@2 3@3 "},
      {"{% for a in l %}{{ loop.cycle('x', 'y') }}{{ loop.previtem }}{{ loop.nextitem }}{{ "
       "loop.changed(a > 1) }} {% endfor %}",
       "x1True y32True x1True "},
      {"{% set a = 1 %}{% for b in l %}{% set a = b %}{{ a }}{% endfor %}{{ a }}", "3121"},
      {"{% set ns = namespace(c=0) %}{% for b in l %}{% set ns.c = ns.c + b %}{% endfor %}{{ ns.c "
       "}}",
       "6"},
      {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", "21"},
      {"{% set t %}<{{ i }}>{% endset %}{{ t }}{{ t | length }}", "<7>3"},
      {"{% set t | upper %}ab{% endset %}{{ t }}", "AB"},
      {"{% filter upper | replace('A', 'o') %}banana{% endfilter %}", "BoNoNo"},
      {"{% macro f(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c=3) "
       "}}{{ f(a=5, b=6) }}",
       "[12x][123][56x]"},
      {"{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, z=3) }}",
       "(1, 2){'z': 3}"},
      {"{% macro w(t) %}<{{ t }}>{{ caller('q') }}</{{ t }}>{% endmacro %}{% call(x) w('p') %}in "
       "{{ x }}{% endcall %}",
       "<p>in q</p>"},
      {"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
       "3210"},
      {"{% with a = 1, b = i %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "17False"},
      {"{% if false %}a{% elif 1 %}b{% else %}c{% endif %}{% if n %}x{% else %}y{% endif %}", "by"},
      {"{% generation %}g{% endgeneration %}", "g"},
      {"{% set j = joiner('; ') %}{% for a in l %}{{ j() }}{{ a }}{% endfor %}", "3; 1; 2"},
      {"{{ dict(a=1, b=2) }} {{ range(2, 8, 3) | list }} {{ range(3, 0, -1) | list }}",
       "{'a': 1, 'b': 2} [2, 5] [3, 2, 1]"},
  };
  test::expect_renderings(kCases);
}

TEST(JinjaLanguage, RefusesWhatPythonRefuses) {
  for (const char* text :
       {"{{ 1 / 0 }}", "{{ missing.a }}", "{{ missing() }}", "{{ 'a' + 1 }}", "{{ 1 < 'a' }}",
        "{{ l.append(1) }}", "{{ d.update({}) }}", "{% set d.a = 1 %}", "{{ x | nofilter }}",
        "{{ x is notest }}", "{{ range(1000000) }}", "{{ missing | tojson }}",
        "{% for a in 5 %}{% endfor %}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
        "{{ {}[[]] if false else {[]: 1} }}", "{{ '%d' % 'a' }}", "{{ 'abc'.index('z') }}",
        "{% set a, b = [1] %}"}) {
    SCOPED_TRACE(text);
    CLORA_EXPECT_ERROR(test::rendered(text), ErrorCode::invalid_argument, "line 1: ");
  }
}

TEST(JinjaLanguage, NamesTheLineOfASyntaxError) {
  for (const char* text : {"\n{{ 1",
                           "\n{% if true %}",
                           "\n{% endif %}",
                           "\n{{ 'a }}",
                           "\n{% for %}{% endfor %}",
                           "\n{{ a | }}",
                           "\n{% unknown %}",
                           "\n{{ (1 }}",
                           "\n{% include 'x' %}",
                           "\n{% extends 'x' %}",
                           "\n{% import 'x' as y %}",
                           "\n{{ a..b }}",
                           "\n{% break %}",
                           "\n{# x",
                           "\n{{ 1 2 }}",
                           "\n{% set true = 1 %}",
                           "\n{% raw %}",
                           "\n{{ a ? b }}",
                           "\n{% macro f(a=1, b) %}{% endmacro %}",
                           "\n{{ f(a=1, 2) }}"}) {
    SCOPED_TRACE(text);
    CLORA_EXPECT_ERROR(jinja::Template::parse(text), ErrorCode::unsupported, "line 2: ");
  }
}

TEST(JinjaLanguage, ReportsTheMessageOfRaiseException) {
  CLORA_EXPECT_ERROR(test::rendered("a\n{{ raise_exception('Roles must ' ~ i) }}"),
                     ErrorCode::invalid_argument, "Roles must 7");
}

TEST(JinjaLanguage, RefusesOtherFilesByName) {
  CLORA_EXPECT_ERROR(jinja::Template::parse("{% include 'x' %}"), ErrorCode::unsupported,
                     "'include' is not supported in a chat template, which is one text");
}

}  // namespace
}  // namespace clora
