// The one file to touch when adding a family: one declaration, one entry.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "models/family.h"

namespace burnish::models {

namespace flux {
extern const Family kFamily;
}
namespace stable_diffusion {
extern const Family kFamily;
}

static constexpr const Family* kFamilies[] = {
    &flux::kFamily,
    &stable_diffusion::kFamily,
};

int64_t Model::num_bytes(const std::string& component) const {
  for (const auto& known : components()) {
    if (known.name == component) return known.num_bytes;
  }
  return 0;
}

static std::vector<const Family*>& added() {
  static std::vector<const Family*> families;
  return families;
}

void add_family(const Family& family) { added().push_back(&family); }

std::vector<const Family*> all_families() {
  auto families = added();
  families.insert(families.end(), std::begin(kFamilies), std::end(kFamilies));
  return families;
}

namespace {

void check_own_options(const Family& family, const ModelOptions& o) {
  auto refuse = [&](bool given, std::string_view name, const char* instead) {
    if (given && std::ranges::find(family.own_options, name) == family.own_options.end())
      config_error("models", "{} is not supported for this model; {}", name, instead);
  };
  refuse(!o.prediction_type.empty(), "prediction_type", "what it predicts is fixed: take it out");
  refuse(o.zero_terminal_snr, "zero_terminal_snr", "its schedule ends in noise alone: take it out");
  refuse(o.clip_skip != 0, "clip_skip", "take it out");
  refuse(o.max_token_length != 0, "max_token_length", "give max_sequence_length, or take it out");
  if (o.dtype == c10::kHalf) refuse(true, "fp16", "choose dtype bf16 or fp32");
}

}  // namespace

std::unique_ptr<Model> open_model(const ModelFiles& files, const ModelOptions& options) {
  std::vector<std::string> names;
  for (const auto* family : all_families()) {
    if (family->recognises(files)) {
      check_own_options(*family, options);
      return family->open(files, options);
    }
    names.emplace_back(family->name);
  }
  data_error("models", "no denoiser of a known family ({}) in {}", join(names), files.describe());
}

}  // namespace burnish::models
