// Qwen2.5-VL and Qwen3-VL: towers that see pictures and frames of any sides, cut into patches.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include <algorithm>
#include <variant>

#include "base/input_error.h"
#include "captioning/sight.h"
#include "models/files/processor_settings.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "models/text/resample.h"

namespace burnish::captioning {

namespace text = models::text;

namespace {

constexpr int64_t kLeastFrameCells = 128;

Prompts qwen_prompts() {
  return {
      .sentences =
          "Describe this {what} in a few plain sentences: the subject, what it looks like and does, the setting, colors, light and style. "
          "Begin with the subject, and say only what is seen.",
      .tags =
          "List what this {what} shows as short tags with commas between them and nothing else: the subject, what it looks like and does, "
          "the setting, colors, light and style. At most 30 tags.",
      .subject = "Call the main subject \"{word}\"."};
}

Language qwen_language(const std::string& name, const models::Source& source, const text::QwenConfig& config, const std::string& before) {
  return {.name = name,
          .source = source,
          .config = config,
          .chat = {before, "<|im_end|>\n<|im_start|>assistant\n"},
          .ends = {"<|im_end|>", "<|endoftext|>"},
          .prompts = qwen_prompts()};
}

at::Tensor levels_of(const at::Tensor& frames_FHW3) { return frames_FHW3.permute({0, 3, 1, 2}).to(at::kDouble); }

class QwenSight : public Sight {
 public:
  QwenSight(Language language, bool tells_times) : Sight(std::move(language)), tells_times_(tells_times) {}

  void add_tower(models::Components& components, const models::ModelFiles& files, const std::string& processor_path) override {
    const auto tower = models::find_vision_tower(files, single_file_prefixes());
    const auto& entry = *language().source.entry;
    if (!tower.entry)
      data_error("captioning", "the {} in {} has no vision tower, and sees no pictures; take files that have one", language().name,
                 entry.label);
    const auto chosen =
        processor_path.empty() ? models::folder_with(entry, {"preprocessor_config.json", "processor_config.json"}) : processor_path;
    if (tells_times_) {
      auto config = models::read_named(tower, text::qwen3_vl_vision_config);
      vision_ = config;
      pixels_ = models::find_pixel_rule(files, chosen, text::qwen3_vl_pixels());
      components.add(models::vision_recipe(kTower, tower, config, pixels_));
    } else {
      auto config = models::read_named(tower, text::vision_config);
      vision_ = config;
      pixels_ = models::find_pixel_rule(files, chosen, {});
      components.add(models::vision_recipe(kTower, tower, config, pixels_));
    }
  }

  models::PictureText ask(models::Components& components, const tokenizers::ChatTokenizer& tokenizer, const Shown& shown,
                          const std::string& prompt, const Detail& detail) const override {
    const auto levels = levels_of(shown.frames_FHW3);
    const auto rule = rule_for(!shown.times.empty(), detail);
    const auto [height, width] = text::shown_size(levels.size(2), levels.size(3), patching(), rule);
    nn::Tensors scaled;
    for (const auto& frame : levels.unbind()) scaled.push_back(text::resampled(frame, height, width, text::Filter::bicubic));
    const auto num_frames = patching().num_frames;
    while (scaled.size() > 1 && std::ssize(scaled) % num_frames != 0) scaled.push_back(scaled.back());
    nn::Tensors seen;
    for (int64_t i = 0; i < std::ssize(scaled); i += num_frames) {
      nn::Tensors slice(scaled.begin() + i, scaled.begin() + std::min(i + num_frames, std::ssize(scaled)));
      seen.push_back(see(components, at::stack(slice)));
    }
    auto text = models::picture_text(tokenizer, language().chat, {told(shown, seen.size())}, prompt, seen, kNoLimit);
    set_times(text, shown);
    return text;
  }

  /// Qwen3-VL counts in thousandths, Qwen2.5-VL in pixels of what it was shown.
  BoxScale box_scale(const models::PictureText& text) const override {
    if (tells_times_ || text.pictures.empty()) return {};
    const auto& picture = text.pictures.front();
    return {static_cast<double>(picture.rows() * patching().cell()), static_cast<double>(picture.columns() * patching().cell())};
  }

 private:
  const text::Patching& patching() const {
    return std::visit([](const auto& config) -> const text::Patching& { return config; }, vision_);
  }

  text::PixelRule rule_for(bool is_clip, const Detail& detail) const {
    auto rule = pixels_;
    if (is_clip) rule.most = detail.frame_pixels;
    else if (detail.picture_pixels > 0) rule.most = std::min(rule.most, detail.picture_pixels);
    if (is_clip) rule.least = kLeastFrameCells * patching().cell() * patching().cell();
    rule.least = std::min(rule.least, rule.most);
    return rule;
  }

  /// Returns what the tower makes of a picture or of frames that a patch spans.
  at::Tensor see(models::Components& components, const at::Tensor& levels_F3HW) const {
    const auto patches = text::patches_of_frames(levels_F3HW, patching(), pixels_);
    auto& tower = components.module(kTower);
    return tells_times_ ? static_cast<text::Qwen3VlVision&>(tower).forward(patches)
                        : static_cast<text::QwenVision&>(tower).forward(patches);
  }

  /// Returns what stands before the prompt, with a token for each of the pictures that are seen.
  std::string told(const Shown& shown, size_t num_slices) const {
    if (shown.times.empty()) return models::kPictureInText;
    const auto num_frames = static_cast<size_t>(patching().num_frames);
    std::string told = tells_times_ ? "" : "<|vision_start|>";
    for (size_t i = 0; i < num_slices; ++i) {
      const auto first = i * num_frames, last = std::min(first + num_frames, shown.times.size()) - 1;
      const char* pad = "<|video_pad|>";
      told += tells_times_
                  ? fmt::format("<{:.1f} seconds><|vision_start|>{}<|vision_end|>", (shown.times[first] + shown.times[last]) / 2, pad)
                  : pad;
    }
    return tells_times_ ? told : told + "<|vision_end|>";
  }

  /// Frames of a clip whose times are not told lie as far apart as time passes between them (transformers:
  /// Qwen2_5_VLModel.get_vision_position_ids).
  void set_times(models::PictureText& text, const Shown& shown) const {
    if (shown.times.empty() || tells_times_) return;
    const auto& config = std::get<text::VisionConfig>(vision_);
    const auto gap =
        shown.times.size() > 1 ? (shown.times.back() - shown.times.front()) / static_cast<double>(shown.times.size() - 1) : 0.0;
    const auto interval = static_cast<double>(config.places_per_second * config.num_frames) * gap;
    for (size_t i = 1; i < text.pictures.size(); ++i) text.pictures[i].time = static_cast<int64_t>(static_cast<double>(i) * interval);
  }

  static constexpr int64_t kNoLimit = 1 << 20;
  bool tells_times_;  ///< whether the time of frames stands before them as words (Qwen3-VL); else they lie so far apart
  std::variant<text::VisionConfig, text::Qwen3VlVisionConfig> vision_;
  text::PixelRule pixels_;
};

}  // namespace

const std::vector<std::string>& single_file_prefixes() {
  static const std::vector<std::string> kPrefixes{"", "text_encoders.qwen25_7b.transformer.", "text_encoders.qwen3vl_4b.transformer.",
                                                  "text_encoders.qwen3vl_8b.transformer."};
  return kPrefixes;
}

std::unique_ptr<Sight> find_qwen_sight(const models::ModelFiles& files) {
  const std::string user = "<|im_start|>user\n", system = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n";
  if (const auto source = models::find_qwen(files, single_file_prefixes(), models::kQwen2Mark); source.entry)
    return std::make_unique<QwenSight>(qwen_language("Qwen2.5-VL", source, models::read_named(source, text::qwen_config), system + user),
                                       false);
  if (const auto source = models::find_qwen3_vl(files, single_file_prefixes()); source.entry)
    return std::make_unique<QwenSight>(qwen_language("Qwen3-VL", source, models::read_named(source, text::qwen3_vl_config), user), true);
  return nullptr;
}

}  // namespace burnish::captioning
