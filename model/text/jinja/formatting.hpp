// str.format() and the format specifications that it and % share.
#pragma once

#include <string>
#include <string_view>

#include "model/text/jinja/limits.hpp"
#include "model/text/jinja/value.hpp"

namespace clora::jinja {

// How a value is written: [[fill]align][sign][#][0][width][,][.precision][kind]
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // <, >, ^, =; 0: by the kind
  char sign = '-';
  bool alternate = false, thousands = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char kind = 0;  // d, x, o, b, f, e, g, %, s; 0: by the value
};

Text formatted(const Value& value, const FormatSpec& spec, WorkBudget& budget);

// "{} {name!r:>5}".format(...)
Text brace_formatted(const Text& format, const Arguments& arguments, WorkBudget& budget);

}  // namespace clora::jinja
