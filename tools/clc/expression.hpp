// Expressions that a kernel's head and a call are written with: a grid from a kernel's sizes,
// 'ceil(M/TILE)*SIDE', and which -D values go together, 'TILE % SIDE == 0'. By muParser, with % and
// ceil() beside what it has: + - * / ^, comparisons, && ||, ?:, min, max, log2, ...
//
// Pure functions; thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

using Variables = std::map<std::string, double, std::less<>>;

// `what` begins the message: "--global". Errors: UsageError, for what is no expression and for a
// name that is no variable, with those there are.
double value_of(const std::string& expression, const Variables& variables, std::string_view what);

// The parts between commas that stand in no parentheses.
std::vector<std::string> split_expressions(std::string_view text);

}  // namespace clora
