#pragma once
#include "models/model/options.h"

// Options that an objective has for itself, by their kind. A model leaves them unread.
namespace burnish::train {

models::Option text_option(const char* name, const char* help, const char* otherwise = "", std::vector<std::string> choices = {});
models::Option number_option(const char* name, const char* help, double otherwise, std::optional<double> least = 0,
                             std::optional<double> most = {});
/// A finite number above 0.
models::Option positive_option(const char* name, const char* help, double otherwise);
/// A whole number of at least 1.
models::Option count_option(const char* name, const char* help, int64_t otherwise, double most);

}  // namespace burnish::train
