// Filters, tests and methods of chat templates: every expectation is what jinja2 renders with the
// settings of transformers.
#include <gtest/gtest.h>

#include "tests/support/jinja_cases.hpp"

namespace clora {
namespace {

using test::JinjaCase;

TEST(JinjaBuiltins, AppliesFilters) {
  constexpr JinjaCase kCases[] = {
      {"{{ s | trim }}|{{ s | upper }}|{{ s | lower }}|{{ 'aB cd' | capitalize }}|{{ 'ab-cd (ef) "
       "g\303\251h' | title }}",
       "Hello World| HELLO WORLD | hello world |Ab cd|Ab-Cd (Ef) G\303\251h"},
      {"{{ 'xxaxx' | trim('x') }} {{ 'aXbXc' | replace('X', '-', 1) }} {{ 'a.b' | replace('.', '') "
       "}}",
       "a a-bXc ab"},
      {"{{ l | length }} {{ 'h\303\251' | length }} {{ d | count }} {{ missing | length }}",
       "3 2 2 0"},
      {"{{ l | first }} {{ l | last }} {{ [] | first is undefined }} {{ l | sum }} {{ l | min }} "
       "{{ l | max }}",
       "3 2 True 6 1 3"},
      {"{{ l | sort }} {{ l | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | "
       "sort(case_sensitive=true) }}",
       "[1, 2, 3] [3, 2, 1] ['A', 'b', 'c'] ['A', 'b']"},
      {"{{ m | sort(attribute='k.z') | map(attribute='role') | list }} {{ m | "
       "map(attribute='content') | join(', ') }}",
       "['assistant', 'user'] Hi, Yo"},
      {"{{ m | selectattr('role', 'equalto', 'user') | list | length }} {{ m | rejectattr('role', "
       "'eq', 'user') | map(attribute='content') | join }}",
       "1 Yo"},
      {"{{ l | select('odd') | list }} {{ l | reject('odd') | list }} {{ [0, 1] | select | list }} "
       "{{ ['a', 'b'] | map('upper') | list }}",
       "[3, 1] [2] [1] ['A', 'B']"},
      {"{{ d | dictsort }} {{ d | items | list | length }} {{ l | reverse | list }} {{ 'abc' | "
       "reverse }}",
       "[('a', [1, 'two', None, True, 0.1]), ('b', 1)] 2 [2, 1, 3] cba"},
      {"{{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ l | join('-') }} {{ l | batch(2) | list }} {{ "
       "l | batch(2, 0) | list }}",
       "[1, 2, 'a'] 3-1-2 [[3, 1], [2]] [[3, 1], [2, 0]]"},
      {"{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.9' | int }} {{ 3.9 | int }} {{ "
       "'ff' | int(base=16) }} {{ '1.5' | float }} {{ 'x' | float }}",
       "12 0 5 3 3 255 1.5 0.0"},
      {"{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 2.1 | round(method='ceil') }} {{ 7 | round }} "
       "{{ -3 | abs }} {{ 2.345 | round(1, 'floor') }}",
       "2.57 2.0 3.0 7 3 2.3"},
      {"{{ d | tojson }}", "{\"b\": 1, \"a\": [1, \"two\", null, true, 0.1]}"},
      {"{{ d | tojson(indent=2) }}",
       "{\n  \"b\": 1,\n  \"a\": [\n    1,\n    \"two\",\n    null,\n    true,\n    0.1\n  ]\n}"},
      {"{{ d | tojson(sort_keys=true, separators=(',', ':')) }}",
       "{\"a\":[1,\"two\",null,true,0.1],\"b\":1}"},
      {"{{ e | tojson }} {{ e | tojson(ensure_ascii=true) }} {{ {} | tojson }} {{ [] | "
       "tojson(indent=1) }} {{ {'a': {}} | tojson(indent=1) }}",
       "\"a<b>&\\\"'\303\251\\n\" \"a<b>&\\\"'\\u00e9\\n\" {} [] {\n \"a\": {}\n}"},
      {"{{ e | escape }} {{ e | string }} {{ e | safe }}",
       "a&lt;b&gt;&amp;&#34;&#39;\303\251\n a<b>&\"'\303\251\n a<b>&\"'\303\251\n"},
      {"{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(1, "
       "blank=true) }}|{{ 'a\nb' | indent('> ') }}",
       "a\n    b\n\n    c|  a\n  b|a\n \n b|a\n> b"},
      {"{{ 'one two three four' | truncate(9, leeway=0) }} {{ 'one two' | truncate(6, true, '.', "
       "0) }} {{ 'one two' | wordcount }}",
       "one... one t. 2"},
      {"{{ '%s-%s' | format(1, 2) }} {{ '%(a)s' | format(a=3) }} {{ 'ab' | center(6) }}|",
       "1-2 3   ab  |"},
      {"{{ 'abc' | list }} {{ d | list }} {{ [d] | map(attribute='b') | list }} {{ [d] | "
       "map(attribute='q', default=9) | list }}",
       "['a', 'b', 'c'] ['b', 'a'] [1] [9]"},
  };
  test::expect_renderings(kCases);
}

TEST(JinjaBuiltins, AppliesTests) {
  constexpr JinjaCase kCases[] = {
      {"{{ i is odd }} {{ i is even }} {{ i is divisibleby 7 }} {{ i is number }} {{ i is integer "
       "}} {{ x is float }} {{ true is number }} {{ true is integer }}",
       "True False True True True True True False"},
      {"{{ s is string }} {{ l is sequence }} {{ d is mapping }} {{ d is iterable }} {{ n is none "
       "}} {{ n is not none }} {{ i is iterable }}",
       "True True True True True False False"},
      {"{{ 'a' is lower }} {{ 'A1' is upper }} {{ 1 is eq 1 }} {{ 1 is lt(2) }} {{ 1 is in [1] }} "
       "{{ true is true }} {{ 1 is true }} {{ false is false }} {{ true is boolean }}",
       "True True True True True True False True True"},
      {"{{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 'zz' is filter }} "
       "{{ none is sameas none }}",
       "True True True False True"},
      {"{{ missing is defined or i is odd }} {{ not missing is defined }} {{ i is odd and true }}",
       "True True True"},
  };
  test::expect_renderings(kCases);
}

TEST(JinjaBuiltins, CallsMethodsOfTexts) {
  constexpr JinjaCase kCases[] = {
      {"{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xay'.strip('xy') }}",
       "Hello World|Hello World | Hello World|a"},
      {"{{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b "
       "'.split(None, 1) }} {{ ''.split(',') }} {{ ''.split() }}",
       "['a', 'b', 'c'] ['a', 'b,c'] ['a,b', 'c'] ['a', 'b '] [''] []"},
      {"{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ 'a=b=c'.partition('=') }} "
       "{{ 'a=b=c'.rpartition('=') }}",
       "['a', 'b', 'c'] ['a\\n', 'b'] ('a', '=', 'b=c') ('a=b', '=', 'c')"},
      {"{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('b', 1) "
       "}} {{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'abc'.find('z') }} {{ "
       "'aXbX'.count('X') }}",
       "True True True 1 3 -1 2"},
      {"{{ 'abc'.upper().lower().title().capitalize() }} {{ 'aB'.swapcase() }} {{ \"it's a "
       "x1y\".title() }}",
       "Abc Ab It'S A X1Y"},
      {"{{ 'ab'.replace('a', 'x') }} {{ 'ab'.replace('', '-') }} {{ '-'.join(['a', 'b']) }} {{ "
       "'prefix-a'.removeprefix('prefix-') }} {{ 'a.txt'.removesuffix('.txt') }}",
       "xb -a-b- a-b a a"},
      {"{{ '{} {1}'.format(1, 2) if false else '{} {}'.format(1, 'b') }} {{ '{a} {b!r:>5} "
       "{{}}'.format(a=1, b='x') }} {{ '{0:05.1f}|{1:<4}|{1:^4}|{2:,}'.format(2.25, 'q', 12345) }}",
       "1 b 1   'x' {} 002.2|q   | q  |12,345"},
      {"{{ 'ab'.ljust(4, '.') }} {{ 'ab'.rjust(4) }} {{ 'ab'.center(5, '*') }} {{ '-7'.zfill(4) }}",
       "ab..   ab **ab* -007"},
      {"{{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ "
       "'ab'.islower() }} {{ 'AB'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ ''.isalpha() }}",
       "True True True True True True True False"},
      {"{{ 'stra\303\237e'.upper() }} {{ '\303\211A'.lower() }} {{ '\302\240x\342\200\203'.strip() "
       "}}",
       "STRASSE \303\251a x"},
  };
  test::expect_renderings(kCases);
}

}  // namespace
}  // namespace clora
