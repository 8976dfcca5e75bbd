#include "adapters/layout.h"

#include <algorithm>

#include "base/choice.h"
#include "base/input_error.h"

namespace burnish::adapters {

const std::vector<std::string>& layouts() {
  static const std::vector<std::string> kNames{"auto", "diffusers", "kohya", "lycoris", "onetrainer", "diffsynth"};
  return kNames;
}

Layout parse_layout(std::string_view name) {
  for (size_t i = 0; i < layouts().size(); ++i) {
    if (name == layouts()[i]) return static_cast<Layout>(i);
  }
  unknown_choice("adapters", "lora_format", name, layouts());
}

void check_readers(Layout layout, Kind kind, bool is_dora, NormAxis axis) {
  if (layout == Layout::diffsynth && (kind != Kind::lora || is_dora))
    config_error("adapters", "--lora_format diffsynth is for LoRA: DiffSynth-Studio reads no other kind; take another format, or auto");
  if (!is_dora || axis == NormAxis::output) return;
  if (layout == Layout::diffusers)
    config_error("adapters",
                 "--lora_format diffusers cannot be had with --dora_norm input: diffusers and peft would leave out its magnitudes; take "
                 "onetrainer or kohya, or --dora_norm output");
  if (layout == Layout::lycoris)
    config_error("adapters",
                 "--lora_format lycoris cannot be had with --dora_norm input: LyCORIS refuses such files; take onetrainer or kohya, or "
                 "--dora_norm output");
}

Layout settled(Layout layout, const std::vector<AdaptedList>& all) {
  bool is_fused = false, by_input = false, by_output = false, is_lora = true;
  for (const auto& adapted : all) {
    is_fused |= any_fused(adapted);
    for (const auto& item : adapted) {
      auto kind = item.adapter->update().kind();
      bool is_dora = item.adapter->is_dora();
      auto axis = item.adapter->magnitude().axis;
      check_readers(layout, kind, is_dora, axis);
      is_lora &= kind == Kind::lora;
      by_input |= is_dora && axis == NormAxis::input;
      by_output |= is_dora && axis == NormAxis::output;
    }
  }
  if (layout != Layout::automatic) return layout;
  if (is_fused && !by_output) return Layout::kohya;
  if (by_input) return Layout::onetrainer;
  return is_lora ? Layout::diffusers : Layout::lycoris;
}

bool any_fused(const AdaptedList& adapted) {
  return std::any_of(adapted.begin(), adapted.end(), [](const auto& item) { return item.adapter->update().fused_rows().count > 0; });
}

}  // namespace burnish::adapters
