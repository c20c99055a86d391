#include "tools/clc/kernel_file/expression.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include <cmath>

#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr double kSlack = 1e-9;  // tolerance for rounding of an exact quotient

double remainder_of(double a, double b) { return std::fmod(a, b); }
double rounded_up(double a) { return std::ceil(a - kSlack); }
double rounded_down(double a) { return std::floor(a + kSlack); }

std::string names_of(const Variables& variables) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

double value_of(const std::string& expression, const Variables& variables, std::string_view what) {
  try {
    mu::Parser parser;
    parser.DefineOprt("%", remainder_of, mu::prMUL_DIV, mu::oaLEFT);
    parser.DefineFun("ceil", rounded_up);
    parser.DefineFun("floor", rounded_down);
    Variables bound = variables;  // muParser keeps pointers to them
    for (auto& [name, value] : bound) parser.DefineVar(name, &value);
    parser.SetExpr(expression);
    return parser.Eval();
  } catch (const mu::Parser::exception_type& error) {
    if (error.GetCode() == mu::ecUNASSIGNABLE_TOKEN) {
      throw UsageError(fmt::format("{} '{}': '{}' is not a known name; the names are {}", what,
                                   expression, error.GetToken(), names_of(variables)));
    }
    throw UsageError(fmt::format("{} '{}': {}", what, expression, error.GetMsg()));
  }
}

std::vector<std::string> split_expressions(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace clora
