// Messages of the library name settings, since it has no command line; programs replace these by
// the names of their options.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace clora {

// A phrase of the library's messages, and what a user of the command line reads in its place.
struct SettingName {
  const char* setting;
  const char* option;
};

std::span<const SettingName> setting_names();

// A message of the library with the options of `clora` in place of the settings, for example
// "lower `batch_size`" as "lower --batch-size".
std::string with_option_names(std::string_view message);

}  // namespace clora
