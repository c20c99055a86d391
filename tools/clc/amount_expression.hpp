// Amounts that a call of a kernel states about itself: "2*n*n", "x + 2*y". Pure functions;
// thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace clora {

// What a name stands for; nothing for a name that is not known.
using AmountOf = std::function<std::optional<double>(const std::string& name)>;

// The value of numbers and names with + - * / and brackets, * and / first.
// Errors: UsageError, naming `option`, the place, and what may stand there; for a value below 0, or
// no finite one.
double amount_of(std::string_view text, std::string_view option, const AmountOf& named);

}  // namespace clora
