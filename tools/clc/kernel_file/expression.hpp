// The expressions of kernel heads and calls: a grid computed from a kernel's sizes,
// 'ceil(M/TILE)*SIDE', and constraints between -D values, 'TILE % SIDE == 0'. Evaluated by muParser
// (+ - * / ^, comparisons, && ||, ?:, min, max, log2, ...), extended by % and ceil().
//
// Pure functions; thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

using Variables = std::map<std::string, double, std::less<>>;

// `what` begins the message: "--global". Errors: UsageError for an invalid expression, and for an
// unknown variable, with a list of the known ones.
double value_of(const std::string& expression, const Variables& variables, std::string_view what);

// Splits at the commas outside parentheses.
std::vector<std::string> split_expressions(std::string_view text);

}  // namespace clora
