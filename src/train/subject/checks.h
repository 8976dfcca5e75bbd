#pragma once
#include <filesystem>

#include "config/fields.h"

namespace burnish::train {

/// A config Error for a number among the fields that is not finite.
void check_finite(const config::Fields& fields);

/// A config Error unless `value` is at least `least`.
void check_at_least(const char* name, double value, double least);

/// A config Error unless `value` is at most `most`, a number of base/limits.h.
void check_at_most(const char* name, int64_t value, int64_t most);

/// Makes the folder and makes sure that files can be written in it; a data Error otherwise.
void make_output_folder(const std::filesystem::path& folder);

}  // namespace burnish::train
