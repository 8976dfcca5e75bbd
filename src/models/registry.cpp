// The one file to touch when adding a family: one declaration, one entry.
#include "base/error.h"
#include "base/text.h"
#include "models/family.h"

namespace burnish::models {

namespace flux {
extern const Family kFamily;
}

static constexpr const Family* kFamilies[] = {
    &flux::kFamily,
};

std::span<const Family* const> all_families() { return kFamilies; }

std::unique_ptr<Model> open_model(const ModelFiles& files, const ModelOptions& options) {
  std::vector<std::string> names;
  for (const auto* family : kFamilies) {
    if (family->recognises(files)) return family->open(files, options);
    names.emplace_back(family->name);
  }
  data_error("models", "no denoiser of a known family ({}) in {}", join(names), files.describe());
}

}  // namespace burnish::models
