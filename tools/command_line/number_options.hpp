// Numeric options: validators that check a value against its range before CLI11 converts it.
// CLI11's own conversions accept nan as a number, read 010 as 8 and wrap values beyond 64 bits.
//
//   command.add_option("--rank", rank)->transform(Integer(1, 65536));
//   --rank must be a whole number from 1 to 65536, got 2.5
//
// A valid value is rewritten without plus sign and leading zeros, so use transform(), not check().
// Immutable; thread-safe.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace clora {

// Decimal digits with an optional sign, from low to high.
class Integer : public CLI::Validator {
 public:
  Integer(std::int64_t low, std::int64_t high);
};

// A finite number from low to high.
class Number : public CLI::Validator {
 public:
  Number(double low, double high);
};

// A finite number above low and at most high.
class NumberAbove : public CLI::Validator {
 public:
  NumberAbove(double low, double high);
};

// The given word, or a whole number from low to high: "all", 4.
class WordOrInteger : public CLI::Validator {
 public:
  WordOrInteger(const std::string& word, std::int64_t low, std::int64_t high);
};

// Limits shared by several commands, far above sensible values and far below overflow.
constexpr std::int64_t kMaxCount = 1'000'000'000;  // steps, records, tokens
constexpr std::int64_t kMaxBatch = 1'000'000;      // records per step
constexpr std::int64_t kMaxSeed = 4'294'967'295;   // the seed of the device generators has 32 bits
constexpr double kMaxSeconds = 1'000'000;

}  // namespace clora
