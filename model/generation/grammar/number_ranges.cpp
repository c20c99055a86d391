#include "model/generation/grammar/number_ranges.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

namespace clora::grammar {
namespace {

constexpr std::size_t kMaxWholeDigits = 18, kMaxFractionDigits = 20;

ExpressionPtr digit_between(char first, char last) {
  return range(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last));
}

ExpressionPtr any_digits(std::size_t min, std::size_t max) {
  return repeat(digit_between('0', '9'), min, max);
}

// Digits from `first` to `last`, which have the same length, from index `at` on.
ExpressionPtr same_length(const std::string& first, const std::string& last, std::size_t at,
                          bool is_first, bool is_last) {
  const std::size_t rest = first.size() - at;
  if (rest == 0) return literal("");
  if (!is_first && !is_last) return any_digits(rest, rest);
  const char low = is_first ? first[at] : '0', high = is_last ? last[at] : '9';
  const auto from = [&](char a, char b, bool goes_first, bool goes_last) {
    return sequence({digit_between(a, b), same_length(first, last, at + 1, goes_first, goes_last)});
  };
  if (low == high) return from(low, low, is_first, is_last);
  std::vector<ExpressionPtr> parts{from(low, low, is_first, false),
                                   from(high, high, false, is_last)};
  if (high - low > 1)
    parts.push_back(from(static_cast<char>(low + 1), static_cast<char>(high - 1), false, false));
  return choice(std::move(parts));
}

// The least number of this many digits.
std::string power_of_ten(std::size_t size) {
  std::string digits(size, '0');
  digits.front() = '1';
  return digits;
}

// REQUIRES first <= last.
ExpressionPtr naturals(std::uint64_t first, std::uint64_t last) {
  const std::string a = std::to_string(first), b = std::to_string(last);
  std::vector<ExpressionPtr> parts;
  for (std::size_t size = a.size(); size <= b.size(); ++size) {
    const std::string lowest = size == a.size() ? a : power_of_ten(size);
    const std::string highest = size == b.size() ? b : std::string(size, '9');
    parts.push_back(same_length(lowest, highest, 0, true, true));
  }
  return choice(std::move(parts));
}

// At most the largest value.
std::uint64_t natural_of(const std::string& digits) {
  std::uint64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return result.ec == std::errc() ? value : std::numeric_limits<std::uint64_t>::max();
}

constexpr std::int64_t kLargestInteger = std::numeric_limits<std::int64_t>::max();

// The least integer of -kLargestInteger to kLargestInteger at or above a lower bound, if any.
std::optional<std::int64_t> least(const Bound& low) {
  const std::uint64_t magnitude = natural_of(low.value.whole);
  const bool is_beyond = magnitude > static_cast<std::uint64_t>(kLargestInteger);
  if (is_beyond && !low.value.is_negative) return std::nullopt;
  if (is_beyond) return -kLargestInteger;
  const auto whole = static_cast<std::int64_t>(magnitude);
  const bool is_between = !low.value.fraction.empty();
  if (low.value.is_negative) return !is_between && low.is_exclusive ? -whole + 1 : -whole;
  if (!is_between && !low.is_exclusive) return whole;
  if (whole == kLargestInteger) return std::nullopt;
  return whole + 1;
}

std::optional<std::int64_t> greatest(const Bound& high) {
  Bound mirrored = high;
  mirrored.value.is_negative = !high.value.is_negative;
  const std::optional<std::int64_t> result = least(mirrored);
  if (!result) return std::nullopt;
  return -*result;
}

// The numbers between two bounds that are not negative; the upper one may be absent.
class Magnitudes {
 public:
  Magnitudes(Bound low, OptionalBound high) : low_(std::move(low)), high_(std::move(high)) {}

  ExpressionPtr all() const {
    const std::uint64_t first = natural_of(low_.value.whole);
    const std::uint64_t last = high_ ? natural_of(high_->value.whole) : kLargest;
    if (high_ && first == last) return sequence({literal(low_.value.whole), fraction(true, true)});
    std::vector<ExpressionPtr> parts{sequence({literal(low_.value.whole), fraction(true, false)})};
    const std::uint64_t last_free = high_ ? last - 1 : last;
    if (first < last_free)
      parts.push_back(sequence({naturals(first + 1, last_free), fraction(false, false)}));
    if (high_) parts.push_back(sequence({literal(high_->value.whole), fraction(false, true)}));
    return choice(std::move(parts));
  }

 private:
  static constexpr std::uint64_t kLargest = 999'999'999'999'999'999;

  const std::string& low_digits() const { return low_.value.fraction; }
  const std::string& high_digits() const { return high_->value.fraction; }

  // at_low: the digits so far are those of the lower bound; at_high: of the upper one.
  ExpressionPtr fraction(bool at_low, bool at_high) const {
    ExpressionPtr some = sequence({literal("."), digits(0, at_low, at_high)});
    return may_end(0, at_low, at_high) ? optional(std::move(some)) : some;
  }

  bool may_end(std::size_t at, bool at_low, bool at_high) const {
    const bool above = !at_low || (at >= low_digits().size() && !low_.is_exclusive);
    const bool below = !at_high || at < high_digits().size() || !high_->is_exclusive;
    return above && below;
  }

  ExpressionPtr rest(std::size_t at, bool at_low, bool at_high) const {
    ExpressionPtr some = digits(at, at_low, at_high);
    return may_end(at, at_low, at_high) ? optional(std::move(some)) : some;
  }

  // One digit or more, from index `at` of the fraction on.
  ExpressionPtr digits(std::size_t at, bool at_low, bool at_high) const {
    if (!at_low && !at_high) return any_digits(1, kMaxFractionDigits);
    const bool low_ends = !at_low || at >= low_digits().size();
    const bool high_ends = !at_high || at >= high_digits().size();
    if (low_ends && high_ends) return digits_after_bounds(at_low, at_high);
    const char low = at_low && at < low_digits().size() ? low_digits()[at] : '0';
    const char high = !at_high ? '9' : at < high_digits().size() ? high_digits()[at] : '0';
    const auto from = [&](char a, char b, bool goes_low, bool goes_high) {
      return sequence({digit_between(a, b), rest(at + 1, goes_low, goes_high)});
    };
    if (low > high) return nothing();
    if (low == high) return from(low, low, at_low, at_high);
    std::vector<ExpressionPtr> parts{from(low, low, at_low, false),
                                     from(high, high, false, at_high)};
    if (high - low > 1)
      parts.push_back(from(static_cast<char>(low + 1), static_cast<char>(high - 1), false, false));
    return choice(std::move(parts));
  }

  // The digits so far are all of a bound's: more of them must be zeros at the upper bound.
  ExpressionPtr digits_after_bounds(bool at_low, bool at_high) const {
    const ExpressionPtr zero = digit_between('0', '0');
    if (at_high) {
      const bool excluded = high_->is_exclusive || (at_low && low_.is_exclusive);
      return excluded ? nothing() : repeat(zero, 1, kMaxFractionDigits);
    }
    if (!low_.is_exclusive) return any_digits(1, kMaxFractionDigits);
    return sequence({repeat(zero, 0, kMaxFractionDigits / 2), digit_between('1', '9'),
                     any_digits(0, kMaxFractionDigits / 2)});
  }

  Bound low_;
  OptionalBound high_;
};

Bound magnitude_of(Bound bound) {
  bound.value.is_negative = false;
  return bound;
}

}  // namespace

Decimal decimal_of(const Json& number) {
  const std::string text = json_text(number);
  const std::size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  int exponent = 0;
  if (exponent_at < text.size()) exponent = std::stoi(text.substr(exponent_at + 1));
  std::string digits;
  int after_point = 0;
  bool is_after = false;
  for (const char c : text.substr(0, exponent_at)) {
    if (c == '.') is_after = true;
    if (c < '0' || c > '9') continue;
    digits += c;
    after_point += is_after ? 1 : 0;
  }
  // digits * 10^-after_point: the point moves to the right by the exponent.
  const int fraction_size = after_point - exponent;
  if (fraction_size < 0 && -fraction_size < 400)
    digits.append(static_cast<std::size_t>(-fraction_size), '0');
  const auto wanted = static_cast<std::size_t>(std::max(fraction_size, 0));
  if (wanted >= digits.size()) digits.insert(0, wanted + 1 - digits.size(), '0');
  Decimal result{text.front() == '-', digits.substr(0, digits.size() - wanted),
                 digits.substr(digits.size() - wanted)};
  result.whole.erase(0, std::min(result.whole.find_first_not_of('0'), result.whole.size() - 1));
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  if (result.is_zero()) result.is_negative = false;
  return result;
}

void check_digits(const Bound& bound, const std::string& path) {
  const Decimal& value = bound.value;
  if (value.whole.size() <= kMaxWholeDigits && value.fraction.size() <= kMaxFractionDigits) return;
  refuse_schema(ErrorCode::unsupported, path,
                "a bound of numbers must have at most {} digits before the point and {} after it",
                kMaxWholeDigits, kMaxFractionDigits);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  const int sign = a.is_negative ? -1 : 1;
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -sign : sign;
  const int whole = a.whole.compare(b.whole);
  return sign * (whole != 0 ? whole : a.fraction.compare(b.fraction));
}

ExpressionPtr integers_between(const OptionalBound& low, const OptionalBound& high) {
  const auto first = low ? least(*low) : -kLargestInteger;
  const auto last = high ? greatest(*high) : kLargestInteger;
  if (!first || !last || *first > *last) return nothing();
  std::vector<ExpressionPtr> parts;
  if (*first < 0) {
    const auto nearest = static_cast<std::uint64_t>(-std::min<std::int64_t>(*last, -1));
    parts.push_back(
        sequence({literal("-"), naturals(nearest, static_cast<std::uint64_t>(-*first))}));
  }
  if (*last >= 0) {
    parts.push_back(naturals(static_cast<std::uint64_t>(std::max<std::int64_t>(*first, 0)),
                             static_cast<std::uint64_t>(*last)));
  }
  return choice(std::move(parts));
}

ExpressionPtr numbers_between(const OptionalBound& low, const OptionalBound& high) {
  const Bound zero{.value = {.whole = "0"}}, above_zero{zero.value, true};
  if (low && high) {
    const int order = compare(low->value, high->value);
    const bool is_excluded = low->is_exclusive || high->is_exclusive;
    if (order > 0 || (order == 0 && is_excluded)) return nothing();
  }
  std::vector<ExpressionPtr> parts;
  if (!low || low->value.is_negative) {
    const Bound nearest = high && high->value.is_negative ? magnitude_of(*high) : above_zero;
    const OptionalBound farthest = low ? OptionalBound(magnitude_of(*low)) : std::nullopt;
    parts.push_back(sequence({literal("-"), Magnitudes(nearest, farthest).all()}));
  }
  if (!high || !high->value.is_negative) {
    const bool from_zero = !low || low->value.is_negative;
    parts.push_back(Magnitudes(from_zero ? zero : *low, high).all());
  }
  return choice(std::move(parts));
}

}  // namespace clora::grammar
