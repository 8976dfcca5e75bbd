#include "train/subject/option_rows.h"

#include "base/input_error.h"

namespace burnish::train {

config::Row option_row(config::Fields& f, const models::Option& option, models::OptionValue& value, std::string help) {
  auto row = std::visit([&](auto& slot) { return f(option.name, slot, std::move(help)); }, value);
  if (!option.choices.empty()) row.one_of(option.choices);
  if (option.least) row.at_least(*option.least);
  if (option.most) row.at_most(*option.most);
  return row;
}

void check_options(const std::vector<models::Option>& options, const models::OptionValues& values) {
  for (const auto& option : options) {
    auto wrong = option.why_wrong ? option.why_wrong(option.name, values.at(option.name)) : "";
    if (!wrong.empty()) config_error("train", "{}", wrong);
  }
}

}  // namespace burnish::train
