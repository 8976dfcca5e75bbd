#include "drawing/draw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/drawn_file.h"
#include "drawing/walk.h"
#include "models/model/columns.h"
#include "models/model/drawn_sound.h"
#include "models/registry.h"

namespace burnish::drawing {

namespace {

/// Tells whether two pictures can be drawn in one batch.
bool are_alike(const Picture& a, const Picture& b) {
  auto what = [](const Picture& p) {
    return std::tie(p.extent, p.frame_rate, p.num_inference_steps, p.guidance, p.negative_prompt, p.references, p.inputs, p.strengths);
  };
  return what(a) == what(b);
}

std::vector<std::span<const Picture>> batches_of(std::span<const Picture> pictures, int64_t batch_size) {
  std::vector<std::span<const Picture>> batches;
  while (!pictures.empty()) {
    size_t size = 1;
    while (size < pictures.size() && std::cmp_less(size, batch_size) && are_alike(pictures[0], pictures[size])) ++size;
    batches.push_back(pictures.first(size));
    pictures = pictures.subspan(size);
  }
  return batches;
}

diffusion::SamplerOptions sampler_options(const models::Model& model, const Picture& picture, const DrawOptions& options) {
  return {.name = options.sampler,
          .timestep_spacing = options.timestep_spacing,
          .num_steps = picture.num_inference_steps,
          .num_image_tokens = model.latent_space().num_tokens(picture.extent),
          .times = options.times};
}

/// Returns what the denoiser reads of a batch beside noisy and time.
pipeline::Values conditions_of(models::Model& model, const Encoded& encoded, std::span<const Picture> batch, c10::Device device) {
  std::vector<Told> prompts;
  for (const auto& picture : batch) prompts.push_back(told(model, picture, picture.prompt));
  auto conditions = stack_prompts(model, encoded, prompts);
  conditions.merge(stack_given(model, encoded, batch.front(), std::ssize(batch)));
  conditions[kRateOfFrames] = at::scalar_tensor(rate_of(model, batch.front()), at::kDouble);
  for (const auto& [name, share] : model.names().references.given_shares) conditions[name] = at::scalar_tensor(1.0, at::kDouble);
  conditions.merge(encode_size(model.units().encode_size, batch.front(), std::ssize(batch), device));
  return conditions;
}

/// That the model reads what a picture is given in further columns, and that it is given all that the model reads.
void check_inputs(const models::Model& model, const Picture& picture) {
  const auto& read = model.names().extra_inputs;
  for (const auto& [column, values] : picture.inputs) {
    auto known = models::extra_inputs();
    if (find_column(read, column) == nullptr)
      config_error("drawing",
                   "{} is for {}, which is not among the files of this {} model; name its file too, or take it out; for previews name the "
                   "column in extra_inputs",
                   column, find_column(known, column)->words.needs, model.names().family);
  }
  for (const auto& input : read) {
    const bool is_of_rows = input.given == Column::Given::by_rows || input.fit == Column::Fit::target;
    if (!is_of_rows && !picture.inputs.contains(input.name))
      config_error("drawing", "the prompt '{}' has no {}, which this model reads; give it with --{}, or so behind the prompt",
                   picture.prompt, input.name, input.name);
  }
}

/// The units of a stage that these pictures run.
pipeline::Units units_to_load(const Denoiser::Stage& stage, const std::vector<Picture>& pictures) {
  auto units = stage.units;
  if (std::ranges::any_of(pictures, &Picture::is_guided)) units.insert(units.end(), stage.away.begin(), stage.away.end());
  return units;
}

/// A stage of the denoiser, in memory for as long as this lives, but for pauses.
class LoadedStage {
 public:
  LoadedStage(loras::Loader& loader, pipeline::Units units) : loader_(loader), units_(std::move(units)) { load(); }

  /// Tells whether it was used for so long that loading it once more hardly counts.
  bool may_pause() const { return Clock::now() - since_ > std::max<Clock::duration>(std::chrono::seconds(10), 10 * loading_); }

  void pause(const std::function<void()>& meanwhile) {
    loaded_.reset();
    meanwhile();
    load();
  }

  void merge_at(const std::vector<double>& strengths) {
    if (!loader_.would_merge_anew(strengths)) return;
    auto merge = [&] { loader_.merge_at(strengths); };
    if (loader_.merges_in_place()) merge();
    else pause(merge);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void load() {
    auto start = Clock::now();
    loaded_.emplace(loader_.load(units_));
    since_ = Clock::now();
    loading_ = since_ - start;
  }

  loras::Loader& loader_;
  pipeline::Units units_;
  std::optional<loras::Loader::Loaded> loaded_;
  Clock::time_point since_;
  Clock::duration loading_;
};

/// Says so of a model that was made for an input and gets none, which it may do without.
void warn_of_missing_input(const models::Model& model, const std::vector<Picture>& pictures) {
  const auto& expected = model.names().references.expected;
  if (expected.empty()) return;
  if (!contains(models::reference_columns(), expected)) {
    if (std::ranges::none_of(pictures, [&](const auto& picture) { return picture.inputs.contains(expected); }))
      warn("{} was trained with {}, and nothing is drawn with any; --{} names it", model.names().variant, expected, expected);
  } else if (std::ranges::all_of(pictures, [](const auto& picture) { return picture.references.empty(); })) {
    warn("{} was trained with reference pictures, and nothing is drawn with any; name them with --reference, or --ci behind a prompt",
         model.names().variant);
  }
}

}  // namespace

void check(const models::Model& model, const std::vector<Picture>& pictures, const DrawOptions& options) {
  const auto columns = models::columns_of(model);
  for (const auto& picture : pictures) {
    if (!picture.references.empty() && find_read_as(columns, kReferences) == nullptr)
      config_error(
          "drawing",
          "the reference picture {} is of no use: this {} model reads none; take it out, or for previews give the run extra_inputs",
          picture.references.front(), model.names().family);
    if (picture.references.empty() && model.names().references.are_needed)
      config_error(
          "drawing",
          "{} makes its layers of a picture, and the prompt '{}' has none; give one with --reference, or --ci behind the prompt; for "
          "previews name its column in extra_inputs too",
          model.names().variant, picture.prompt);
    if (const auto why = model.names().why_too_many(std::ssize(picture.references)); !why.empty())
      config_error("drawing", "the prompt '{}' has {}; take some out", picture.prompt, why);
    check_inputs(model, picture);
    rate_of(model, picture);
  }
  warn_of_missing_input(model, pictures);
  for (const auto& alike : batches_of(pictures, std::ssize(pictures)))
    model.process().sampler(sampler_options(model, alike.front(), options));
}

int64_t num_steps(const std::vector<Picture>& pictures, int64_t batch_size) {
  int64_t count = 0;
  for (const auto& batch : batches_of(pictures, batch_size)) count += batch.front().num_inference_steps;
  return count;
}

/// Noise of each stream of the model that a batch starts from.
pipeline::Values start_of(const models::Model& model, const Noise& noise, std::span<const Picture> batch, int64_t first,
                          c10::Device device) {
  pipeline::Values start;
  const auto& space = model.latent_space();
  const auto rate = rate_of(model, batch.front());
  for (const auto& stream : space.streams)
    start[stream.name] = noise.start(first, std::ssize(batch), space.shape(stream, batch.front().extent, rate), stream.name).to(device);
  return start;
}

std::vector<Latents> draw(loras::Loader& loader, const Encoded& encoded, const std::vector<Picture>& pictures, const Noise& noise,
                          const DrawOptions& options, const std::function<bool(int64_t num_done)>& goes_on,
                          const std::function<void(const std::vector<Latents>& finished)>& pause) {
  at::NoGradGuard no_grad;
  auto& model = loader.model();
  const auto denoiser = denoiser_of(model, model.experts_there(), UnitsFor::looking);
  const auto batches = batches_of(pictures, options.batch_size);
  int64_t num_done = 0;
  auto begin = [&](std::span<const Picture> batch, int64_t first) {
    const auto& picture = batch.front();
    auto conditions = conditions_of(model, encoded, batch, options.device);
    WalkOptions walking{.sampler = sampler_options(model, picture, options)};
    if (picture.is_guided()) {
      auto negative =
          guides_by_prompts(model) ? negative_of(model, encoded, told(model, picture, picture.negative_prompt), conditions) : conditions;
      walking.guidance = {std::move(negative), picture.guidance.scale, picture.guidance.rescale};
    }
    auto start = start_of(model, noise, batch, first, options.device);
    walking.step_noise = [&, first, size = std::ssize(batch), start](int64_t step, const std::string& stream) {
      return noise.of_step(step, first, size, std::get<at::Tensor>(start.at(stream)).sizes().slice(1), stream).to(options.device);
    };
    if (goes_on) walking.goes_on = [&](int64_t) { return goes_on(num_done++); };
    return std::make_unique<Walk>(denoiser, start, std::move(conditions), std::move(walking));
  };

  std::vector<Latents> finished;
  std::vector<std::unique_ptr<Walk>> walks(batches.size());  // a stage takes all of them on before the next is loaded
  size_t next = 0;                                           // whose latents come next
  auto take_finished = [&] {
    for (; next < walks.size() && walks[next] && walks[next]->is_done(); ++next) {
      for (int64_t i = 0; i < std::ssize(batches[next]); ++i) {
        auto& latents = finished.emplace_back();
        for (const auto& [stream, batched] : walks[next]->latents()) latents[stream] = batched.narrow(0, i, 1);
      }
      walks[next].reset();
    }
  };
  for (size_t stage = 0; stage < denoiser.stages.size(); ++stage) {
    if (!pictures.empty()) loader.merge_at(pictures.front().strengths);
    LoadedStage loaded(loader, units_to_load(denoiser.stages[stage], pictures));
    int64_t first = 0;
    for (size_t i = 0; i < batches.size(); first += std::ssize(batches[i++])) {
      if (pause && !finished.empty() && loaded.may_pause()) loaded.pause([&] { pause(finished); });
      loaded.merge_at(batches[i].front().strengths);
      auto& walk = walks[i];
      if (stage == 0) walk = begin(batches[i], first);
      if (walk && !walk->advance(stage)) return finished;
      take_finished();
    }
  }
  return finished;
}

void decode(loras::Loader& loader, const std::vector<Latents>& latents,
            const std::function<void(int64_t index, const Decoded& decoded)>& take, int64_t first) {
  at::NoGradGuard no_grad;
  auto units = loader.model().units().decode;
  auto loaded = loader.load(units);
  for (int64_t i = first; i < std::ssize(latents); ++i) {
    auto values = latents[static_cast<size_t>(i)];
    pipeline::run(units, values);
    Decoded decoded{std::get<at::Tensor>(values.at("image"))[0].cpu()};
    if (models::writes_sound(units) && data::is_drawn_clip(decoded.image))
      decoded.sound = {std::get<at::Tensor>(values.at(models::kDrawnSound))[0].cpu(),
                       std::get<at::Tensor>(values.at(models::kDrawnSoundRate)).item<int64_t>()};
    take(i, decoded);
  }
}

}  // namespace burnish::drawing
