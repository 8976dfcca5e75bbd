#include "train/objectives/own_options.h"

#include <fmt/core.h>

#include <cmath>

namespace burnish::train {

namespace {

std::string why_not_positive(const std::string& name, const models::OptionValue& value) {
  const auto number = std::get<double>(value);
  return number > 0 && std::isfinite(number) ? "" : fmt::format("{} must be above 0, not {}", name, number);
}

}  // namespace

models::Option text_option(const char* name, const char* help, const char* otherwise, std::vector<std::string> choices) {
  return {.name = name, .help = help, .otherwise = std::string(otherwise), .elsewhere = "", .choices = std::move(choices)};
}

models::Option number_option(const char* name, const char* help, double otherwise, std::optional<double> least,
                             std::optional<double> most) {
  return {.name = name, .help = help, .otherwise = otherwise, .elsewhere = "", .least = least, .most = most};
}

models::Option positive_option(const char* name, const char* help, double otherwise) {
  return {.name = name, .help = help, .otherwise = otherwise, .elsewhere = "", .why_wrong = why_not_positive};
}

models::Option count_option(const char* name, const char* help, int64_t otherwise, double most) {
  return {.name = name, .help = help, .otherwise = otherwise, .elsewhere = "", .least = 1, .most = most};
}

}  // namespace burnish::train
