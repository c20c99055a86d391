#include "model/text/jinja/operators.hpp"

#include <cmath>
#include <limits>

#include "model/text/jinja/characters.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {

namespace {

constexpr const char* symbol_of(Operator op) {
  switch (op) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::remainder:
      return "%";
    case Operator::power:
      return "**";
  }
  return "?";
}

[[noreturn]] void refuse(Operator op, const Value& a, const Value& b) {
  fail(ErrorCode::invalid_argument, "unsupported operand types for {}: '{}' and '{}'",
       symbol_of(op), a.kind_name(), b.kind_name());
}

[[noreturn]] void overflow() {
  fail(ErrorCode::invalid_argument, "an integer of the template does not fit 64 bits");
}

std::int64_t floor_divided(std::int64_t a, std::int64_t b) {
  if (a == std::numeric_limits<std::int64_t>::min() && b == -1) overflow();
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::int64_t remainder_of(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value power_of(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Value calculate_integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflows = false;
  const bool divides =
      op == Operator::divide || op == Operator::floor_divide || op == Operator::remainder;
  require(!divides || b != 0, "division by zero");
  switch (op) {
    case Operator::add:
      overflows = __builtin_add_overflow(a, b, &out);
      break;
    case Operator::subtract:
      overflows = __builtin_sub_overflow(a, b, &out);
      break;
    case Operator::multiply:
      overflows = __builtin_mul_overflow(a, b, &out);
      break;
    case Operator::divide:
      return static_cast<double>(a) / static_cast<double>(b);
    case Operator::floor_divide:
      return floor_divided(a, b);
    case Operator::remainder:
      return remainder_of(a, b);
    case Operator::power:
      return power_of(a, b);
  }
  if (overflows) overflow();
  return out;
}

Value calculate_reals(Operator op, double a, double b) {
  const bool divides =
      op == Operator::divide || op == Operator::floor_divide || op == Operator::remainder;
  require(!divides || b != 0, "division by zero");
  switch (op) {
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::divide:
      return a / b;
    case Operator::floor_divide:
      return std::floor(a / b);
    case Operator::remainder:
      return a - b * std::floor(a / b);
    case Operator::power:
      return std::pow(a, b);
  }
  return 0.0;
}

Value joined(const Text& a, const Text& b, WorkBudget& budget) {
  budget.text(a.size() + b.size());
  const bool is_markup = a.is_markup() || b.is_markup();
  Text out = is_markup ? escaped(a) : a;
  out.append(is_markup ? escaped(b) : b);
  return is_markup ? out.as_markup() : out;
}

Value joined(const List& a, const List& b, WorkBudget& budget) {
  budget.step(a.items.size() + b.items.size());
  List out = a;
  out.items.insert(out.items.end(), b.items.begin(), b.items.end());
  return out;
}

Value repeated(const Value& value, std::int64_t times, WorkBudget& budget) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  constexpr std::size_t kMost = std::size_t{1} << 30U;
  require(count < kMost, "a text or list is repeated {} times", count);
  if (const Text* text = value.text()) {
    Text out;
    if (!text->empty()) budget.text(std::min(count * text->size(), kMost));
    for (std::size_t i = 0; i < count && !text->empty(); ++i) out.append(*text);
    return out;
  }
  List out{.items = {}, .is_tuple = value.list()->is_tuple};
  const std::vector<Value>& items = value.list()->items;
  if (!items.empty()) budget.step(std::min(count * items.size(), kMost));
  for (std::size_t i = 0; i < count && !items.empty(); ++i)
    out.items.insert(out.items.end(), items.begin(), items.end());
  return out;
}

bool repeats(const Value& sequence, const Value& count) {
  return (sequence.text() != nullptr || sequence.list() != nullptr) && count.as_integer();
}

}  // namespace

void require_defined(const Value& value) {
  if (value.is_undefined())
    fail(ErrorCode::invalid_argument, "{}",
         value.undefined_what().empty() ? "a value is undefined" : value.undefined_what());
}

Value calculate(Operator op, const Value& a, const Value& b, WorkBudget& budget) {
  if (op == Operator::remainder && a.text() != nullptr) {
    return percent_formatted(*a.text(), b, budget);
  }
  require_defined(a);
  require_defined(b);
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) {
    return calculate_integers(op, *x, *y);
  }
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return calculate_reals(op, *x, *y);
  if (op == Operator::add && a.text() != nullptr && b.text() != nullptr) {
    return joined(*a.text(), *b.text(), budget);
  }
  if (op == Operator::add && a.list() != nullptr && b.list() != nullptr &&
      a.list()->is_tuple == b.list()->is_tuple) {
    return joined(*a.list(), *b.list(), budget);
  }
  if (op == Operator::multiply && repeats(a, b)) return repeated(a, *b.as_integer(), budget);
  if (op == Operator::multiply && repeats(b, a)) return repeated(b, *a.as_integer(), budget);
  refuse(op, a, b);
}

Value negative(const Value& value) {
  require_defined(value);
  if (const auto i = value.as_integer()) return calculate_integers(Operator::subtract, 0, *i);
  if (const double* d = value.real()) return -*d;
  fail(ErrorCode::invalid_argument, "unsupported operand type for unary -: '{}'",
       value.kind_name());
}

Value positive(const Value& value) {
  require_defined(value);
  if (const auto i = value.as_integer()) return *i;
  if (value.real() != nullptr) return value;
  fail(ErrorCode::invalid_argument, "unsupported operand type for unary +: '{}'",
       value.kind_name());
}

bool equal(const Value& a, const Value& b, WorkBudget& budget) {
  constexpr std::size_t kMost = 1'000'000;
  std::size_t work = kMost;
  const bool result = equal(a, b, work);
  budget.step(kMost - work);
  return result;
}

bool less(const Value& a, const Value& b, WorkBudget& budget) {
  budget.step();
  require_defined(a);
  require_defined(b);
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) return *x < *y;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x < *y;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() < b.text()->bytes();
  if (a.list() != nullptr && b.list() != nullptr) {
    const auto& x = a.list()->items;
    const auto& y = b.list()->items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i], budget)) return less(x[i], y[i], budget);
    }
    return x.size() < y.size();
  }
  fail(ErrorCode::invalid_argument, "'<' is not supported between values of type '{}' and '{}'",
       a.kind_name(), b.kind_name());
}

bool contains(const Value& container, const Value& item, WorkBudget& budget) {
  if (container.is_undefined()) return false;
  if (const Text* text = container.text()) {
    require(item.text() != nullptr, "'in <str>' requires a str on its left, got {}",
            item.kind_name());
    budget.step(1 + text->size() / 64);
    return text->bytes().find(item.text()->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    budget.step(1 + dict->entries.size() / 8);
    return dict->find_key(item) != nullptr;
  }
  const List* list = container.list();
  require(list != nullptr, "a value of type '{}' is not a container", container.kind_name());
  for (const Value& other : list->items) {
    if (equal(other, item, budget)) return true;
  }
  return false;
}

}  // namespace clora::jinja
