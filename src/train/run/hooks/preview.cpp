#include <fmt/core.h>

#include "data/drawn_file.h"
#include "loras/merged.h"
#include "records/previews.h"
#include "train/run/at_strength.h"
#include "train/run/hooks/hooks.h"

namespace burnish::train {

namespace {

class Preview final : public Hook {
 public:
  explicit Preview(const Training& training) : training_(training), every_(training.settings.output.previews.every) {}

  void before() override {
    if (training_.trainee.progress.step == 0) draw();
  }
  bool looks_at(const StepReport& r) override { return r.asked.preview || (every_ > 0 && r.step % every_ == 0); }
  void stepped(StepReport& r) override {
    if (looks_at(r)) draw();
  }
  void ended() override {
    if (last_ != training_.trainee.progress.step) draw();
  }

 private:
  /// Draws with the averaged weights where there are any, as they would be saved. The first process draws; where processes divide blocks
  /// all do.
  void draw() {
    const auto& trainee = training_.trainee;
    optim::Averaged averaged(*trainee.optimizer, trainee.ema.get(), trainee.sharing());
    last_ = trainee.progress.step;
    if (training_.previews == nullptr) return;
    std::vector<Strength> strengths(1);
    const auto& others = training_.settings.output.validation_strengths;
    strengths.insert(strengths.end(), others.begin(), others.end());
    for (size_t i = 0; i < strengths.size(); ++i) {
      AtStrength strength(*trainee.attached, strengths[i]);
      const auto first = static_cast<int64_t>(i) * std::ssize(training_.previews->pictures);
      TakePreview take;
      if (training_.world.is_first())
        take = [this, first, strength = strengths[i].text()](int64_t number, const drawing::Picture& picture,
                                                             const drawing::Decoded& drawn) {
          write(first + number, picture, strength, drawn);
        };
      draw_previews(*training_.previews, trainee.model, pipeline::models_of(trainee.live.units), take);
    }
    const bool reads_anew = !training_.previews->with_presets && loras::has_merged(trainee.model);
    if (reads_anew && trainee.execution.replays) trainee.execution.replays->forget();  // the weights lie elsewhere now
  }

  /// A preview of a run before this one in the folder may have been of another kind.
  void write(int64_t number, const drawing::Picture& picture, const std::string& strength, const drawing::Decoded& decoded) const {
    const auto& drawn = decoded.image;
    const auto rate = drawing::rate_of(training_.trainee.model, picture);
    const bool is_clip = data::is_drawn_clip(drawn);
    const auto format = preview_format(training_.settings.output.previews, training_.trainee.model);
    const auto stem = records::preview_path(training_.settings.output.folder, last_, number, records::PreviewKind::frames);
    const auto written = data::drawn_path(stem, format, is_clip);
    std::filesystem::create_directories(stem.parent_path());
    for (auto kind : records::kPreviewKinds) {
      auto other = records::preview_path(training_.settings.output.folder, last_, number, kind);
      if (other != written) std::filesystem::remove_all(other);
    }
    data::Texts text{{"prompt", picture.prompt},
                     {"negative_prompt", picture.negative_prompt},
                     {"seed", std::to_string(picture.seed.value_or(0))},
                     {"num_inference_steps", std::to_string(picture.num_inference_steps)},
                     {"cfg_scale", fmt::format("{}", picture.guidance.scale)},
                     {"step", std::to_string(last_)}};
    if (strength != Strength().text()) text.emplace_back("strength", strength);
    if (is_clip) {
      text.emplace_back("num_frames", std::to_string(drawn.size(1)));
      text.emplace_back("frame_rate", fmt::format("{}", rate));
    }
    data::write_drawn(stem, format, drawn, rate, text, decoded.sound);
  }

  const Training& training_;
  int64_t every_ = 0, last_ = -1;
};

}  // namespace

std::unique_ptr<Hook> make_preview(const Training& training) {
  bool is_asked_for = !training.settings.output.previews.prompts.empty();
  bool has_part = training.world.is_first() || training.trainee.ownership;  // in averages, of which each process has some
  if (!is_asked_for || !has_part) return nullptr;
  training.trainee.attached->check_strengths(training.settings.output.validation_strengths);
  return std::make_unique<Preview>(training);
}

}  // namespace burnish::train
