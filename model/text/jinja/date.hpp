// The date that a template is given in place of the current one, so that results do not depend on
// the day. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace clora::jinja {

struct Date {
  int year = 0, month = 0, day = 0;
};

// "26 Jul 2024" or "2024-07-26". Errors: invalid_argument for another text.
Date parse_date(std::string_view text);

// strftime() in the C locale: %Y %y %m %d %e %B %b %h %A %a %j %F %D %x %% and, at midnight, %H %I
// %M %S %p %T %X %R; "-" and "#" after % drop a leading zero. Errors: invalid_argument for another
// one.
std::string formatted_date(const Date& date, std::string_view format);

}  // namespace clora::jinja
