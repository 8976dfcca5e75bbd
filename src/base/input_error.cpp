#include "base/input_error.h"

#include "base/error.h"

namespace burnish {

void throw_config_error(const char* room, fmt::string_view text, fmt::format_args values) {
  throw Error(Exit::config, room, fmt::vformat(text, values));
}

void throw_data_error(const char* room, fmt::string_view text, fmt::format_args values) {
  throw Error(Exit::data, room, fmt::vformat(text, values));
}

}  // namespace burnish
