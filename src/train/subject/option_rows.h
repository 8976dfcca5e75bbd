#pragma once
#include "config/fields.h"
#include "models/model/options.h"

namespace burnish::train {

/// Lists an option of a family or an objective, with the values that it may have.
config::Row option_row(config::Fields& f, const models::Option& option, models::OptionValue& value, std::string help);

/// Throws a config Error for a value that Option::why_wrong refuses.
void check_options(const std::vector<models::Option>& options, const models::OptionValues& values);

}  // namespace burnish::train
