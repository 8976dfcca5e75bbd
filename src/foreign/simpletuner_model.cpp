#include "foreign/simpletuner_model.h"

#include "base/text.h"

namespace burnish::foreign::of_simpletuner {

std::string family(const Settings& all) { return lower(all.text("model_family")); }
bool has_unet(const Settings& all) { return family(all) == "sdxl" || family(all) == "sd1x"; }
std::string denoiser(const Settings& all) { return has_unet(all) ? "unet" : "dit"; }
bool has_adapter(const Settings& all) { return lower(all.text("model_type", "full")) == "lora"; }
bool is_lycoris(const Settings& all) { return has_adapter(all) && lower(all.text("lora_type", "standard")) == "lycoris"; }
bool is_standard(const Settings& all) { return has_adapter(all) && !is_lycoris(all) && !all.has("init_lora"); }

Outcome if_on(const Value& value, const Value& ours) { return asks_for_something(value) ? carried(ours) : left_out(""); }

}  // namespace burnish::foreign::of_simpletuner
