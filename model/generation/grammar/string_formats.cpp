#include "model/generation/grammar/string_formats.hpp"

#include <algorithm>
#include <array>

namespace clora::grammar {
namespace {

// Years from 0100 on. Of those that four divides, the full centuries are leap years if 400 divides
// them.
#define CLORA_CENTURY "(?:[1-9][0-9]|0[1-9])"
#define CLORA_LEAP_YEAR                               \
  "(?:" CLORA_CENTURY                                 \
  "(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468]" \
  "[048]|[13579][26])00)"
#define CLORA_DATE                                             \
  "(?:" CLORA_CENTURY                                          \
  "[0-9]{2}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|" \
  "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" CLORA_LEAP_YEAR "-02-29)"
#define CLORA_TIME                                                        \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define CLORA_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define CLORA_HOST CLORA_LABEL "(?:\\." CLORA_LABEL "){0,3}"
#define CLORA_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define CLORA_PATH_TEXT "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"

struct Format {
  std::string_view name, pattern;
};

constexpr std::array kFormats{
    Format{"date", "^" CLORA_DATE "$"},
    Format{"time", "^" CLORA_TIME "$"},
    Format{"date-time", "^" CLORA_DATE "T" CLORA_TIME "$"},
    Format{"duration",
           "^P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M"
           "(?:[0-9]{1,9}D)?|[0-9]{1,9}D)(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|"
           "[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M"
           "(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))$"},
    Format{"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    Format{"email", "^[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,30})?@" CLORA_HOST "$"},
    Format{"hostname", "^" CLORA_HOST "$"},
    Format{"ipv4", "^" CLORA_BYTE "(?:\\." CLORA_BYTE "){3}$"},
    Format{"uri", "^https?://" CLORA_HOST "(?::[1-9][0-9]{0,3})?(?:/" CLORA_PATH_TEXT
                  "*)*(?:\\?(?:" CLORA_PATH_TEXT "|[/?])*)?(?:#(?:" CLORA_PATH_TEXT "|[/?])*)?$"},
};

#undef CLORA_CENTURY
#undef CLORA_LEAP_YEAR
#undef CLORA_DATE
#undef CLORA_TIME
#undef CLORA_LABEL
#undef CLORA_HOST
#undef CLORA_BYTE
#undef CLORA_PATH_TEXT

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  const auto found = std::ranges::find(kFormats, format, &Format::name);
  return found == kFormats.end() ? std::string_view() : found->pattern;
}

std::string format_names() {
  std::string names;
  for (const Format& format : kFormats) {
    if (!names.empty()) names += ", ";
    names += format.name;
  }
  return names;
}

}  // namespace clora::grammar
