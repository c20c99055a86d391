// The formats of strings that JSON Schema names, as patterns (pattern.hpp). Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace clora::grammar {

// The pattern of a format; empty if the format is not supported.
//   date, time, date-time   RFC 3339: years from 0100 on, days that exist, no leap seconds, times
//                           with an offset
//   duration                RFC 3339, appendix A
//   uuid                    RFC 4122, in either case
//   email                   a part of RFC 5321: unquoted words with dots, and a host name
//   hostname                RFC 1123
//   ipv4                    RFC 2673, section 3.2
//   uri                     a part of RFC 3986: http and https, with a host name
std::string_view pattern_of_format(std::string_view format);

// "date, time, ...", for messages.
std::string format_names();

}  // namespace clora::grammar
