#include "train/run/rollouts.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "data/animated_webp.h"
#include "data/drawn_file.h"
#include "data/resize.h"
#include "drawing/draw.h"
#include "drawing/walk.h"
#include "optim/averaged.h"
#include "train/objectives/nft.h"
#include "train/samples/draws.h"

namespace burnish::train {

namespace {

const char *const kRound = "round", *const kAveragedFor = "averaged_for", *const kScores = "scores";

/// The folder of a run where the pictures of its last round lie.
const char* const kFolder = "drawn";

models::ModelOptions judges_of(const Settings& settings) {
  auto options = settings.model.options;
  return {.dtype = c10::kFloat, .device = options.device};
}

[[noreturn]] void interrupt() { throw NotDrawn(Exit::interrupted, "train", "interrupted while pictures were drawn to learn from"); }

/// The visits of a part of the pictures.
BatchVisits part_of(const BatchVisits& all, size_t first, size_t count) {
  BatchVisits part{all.id, {.count = static_cast<int64_t>(count)}, {}, {}, all.visits[first]};
  part.visits.assign(all.visits.begin() + static_cast<std::ptrdiff_t>(first),
                     all.visits.begin() + static_cast<std::ptrdiff_t>(first + count));
  part.picks.assign(all.picks.begin() + static_cast<std::ptrdiff_t>(first), all.picks.begin() + static_cast<std::ptrdiff_t>(first + count));
  return part;
}

at::Tensor pixels_of(const at::Tensor& drawn) {
  if (drawn.dim() == 4) return data::frame_of_clip(drawn, 0).slice(2, 0, 3).contiguous();
  return data::to_pixels(drawn).slice(2, 0, 3).contiguous();
}

}  // namespace

Rollouts::Rollouts(const Opened& run)
    : run_(run),
      model_(*run.subject),
      own_(nft_options_of(run.settings.objective.own)),
      rewards_(own_.reward, run.samples(), judges_of(run.settings)) {
  if (run.settings.together.num_processes > 1)
    config_error("train", "nft draws and scores in one process, and this run has {}; start it alone", run.settings.together.num_processes);
}

std::vector<pipeline::Values> Rollouts::draw(const Trainee& trainee, const BatchVisits& pictures, const Feed& feed) const {
  const auto denoiser = drawing::denoiser_of(model_, model_.experts_there(), drawing::UnitsFor::training);
  const auto names = denoiser.condition_names();
  const auto seed = run_.settings.course.seed;
  const auto device = trainee.execution.device;
  const auto& space = model_.latent_space();
  const auto at_once = static_cast<size_t>(run_.settings.course.batch_size);
  const optim::Averaged averaged(*trainee.optimizer, &trainee.own->old_policy);
  Progress bar("draw", std::ssize(pictures.visits) * own_.num_inference_steps);
  std::vector<pipeline::Values> all;
  int64_t num_done = 0;
  for (size_t first = 0; first < pictures.visits.size(); first += at_once) {
    const auto part = part_of(pictures, first, std::min(at_once, pictures.visits.size() - first));
    auto values = values_of(trainee, feed.visited(trainee.live, part), {names.begin(), names.end()});
    pipeline::Values conditions, noise;
    for (const auto& name : names) conditions[name] = values.at(name);
    const auto& sample = run_.samples().at(part.picks.front().row);
    for (const auto& stream : space.streams)
      noise[stream.name] = normal_noise(part.visits, shape_of(sample, stream.name), seed, Purpose::drawing, stream.name).to(device);
    drawing::WalkOptions options{
        .sampler = {.num_steps = own_.num_inference_steps, .num_image_tokens = space.num_tokens(sample.latent_shape)}};
    options.step_noise = [&](int64_t step, const std::string& stream) {
      const auto of_step = mix64(seed ^ mix64(static_cast<uint64_t>(step + 1)));
      return normal_noise(part.visits, shape_of(sample, stream), of_step, Purpose::drawing, stream).to(device);
    };
    options.goes_on = [&](int64_t) {
      bar.update(num_done);
      num_done += std::ssize(part.visits);
      return !interrupted();
    };
    const auto drawn = drawing::walk(denoiser, noise, conditions, options);
    if (drawn.empty()) interrupt();
    for (int64_t i = 0; i < std::ssize(part.visits); ++i) {
      auto& latents = all.emplace_back();
      for (const auto& [stream, tensor] : drawn) latents[stream] = std::get<at::Tensor>(tensor).narrow(0, i, 1);
    }
  }
  return all;
}

std::vector<ScoredPicture> Rollouts::decode(const Trainee& trainee, const std::vector<pipeline::Values>& latents,
                                            const BatchVisits& pictures) const {
  const auto folder = run_.settings.output.folder / kFolder;
  if (rewards_.reads_files()) std::filesystem::create_directories(folder);
  loras::Loader loader(model_, pipeline::models_of(trainee.live.units));
  std::vector<ScoredPicture> all;
  drawing::decode(loader, latents, [&](int64_t number, const drawing::Decoded& decoded) {
    const auto& pick = pictures.picks.at(static_cast<size_t>(number));
    const auto& samples = run_.samples();
    auto& picture = all.emplace_back(ScoredPicture{pixels_of(decoded.image), {}, pick.empty_caption ? "" : samples.caption_of(pick)});
    if (!rewards_.reads_files()) return;
    const auto stem = folder / fmt::format("{:03}", number);
    const auto rate = samples.at(pick.row).frame_rate > 0 ? samples.at(pick.row).frame_rate : model_.latent_space().frame_rate;
    const bool is_clip = data::is_drawn_clip(decoded.image);
    picture.file = data::drawn_path(stem, "default", is_clip);
    data::write_drawn(stem, "default", decoded.image, rate, {{"prompt", picture.prompt}}, decoded.sound);
  });
  return all;
}

at::Tensor Rollouts::sums_of(const at::Tensor& scores_NT) const {
  std::vector<double> weights;
  for (const auto& term : own_.reward.terms) weights.push_back(term.weight);
  return (scores_NT * at::tensor(weights, at::kDouble)).sum(1);
}

void Rollouts::prepare(Trainee& trainee, const Course& course, const Feed& feed) {
  auto& own = *trainee.own;
  const auto round = course.rounds()->round_of(trainee.progress.batch);
  if (own.number(kAveragedFor) < round) {
    if (round > 0) own.old_policy.update(own_.old_policy.decay(trainee.progress.step));
    own.keep(kAveragedFor, round);
  }
  if (course.is_replayed() || own.number(kRound) == round) return;
  try {
    at::NoGradGuard no_grad;
    const auto pictures = course.pictures_of(round);
    const auto latents = draw(trainee, pictures, feed);
    const auto scores_NT = rewards_.scores(decode(trainee, latents, pictures));
    for (const auto& stream : model_.latent_space().streams) {
      std::vector<at::Tensor> of_stream;
      for (const auto& values : latents) of_stream.push_back(std::get<at::Tensor>(values.at(stream.name)).to(at::kFloat).cpu());
      own.keep(stream.name, at::cat(of_stream));
    }
    own.keep(kScores, scores_NT);
    own.keep(kRound, round);
  } catch (const NotDrawn&) {
    throw;
  } catch (const Error& error) {
    throw NotDrawn(error.code(), "train", without_source(error));
  }
}

void Rollouts::complete(const Trainee& trainee, const Course& course, Batch& batch, const BatchId& id) const {
  const auto& own = *trainee.own;
  const auto& streams = model_.latent_space().streams;
  std::set<std::string> predictions;
  for (const auto& stream : streams) predictions.insert(stream.value("prediction"));
  if (!course.is_replayed()) {
    const auto seen_B = at::tensor(course.batch(id).pictures);
    const auto sums_N = sums_of(own.tensor(kScores));
    const auto optimality_N = optimality_of(sums_N, own_.rounds.group_size, own_.most_advantage);
    batch.draws[kOptimality] = optimality_N.index_select(0, seen_B).to(at::kFloat);
    for (const auto& stream : streams) batch.draws[stream.value(kDrawnPicture)] = own.tensor(stream.name).index_select(0, seen_B);
    const auto told =
        at::cat({sums_N.mean().view({1}), (sums_N - sums_N.mean()).square().mean().sqrt().view({1}), own.tensor(kScores).mean(0)});
    batch.draws[kRoundScores] = told.unsqueeze(0).expand({seen_B.numel(), told.numel()}).contiguous();
  }
  for (const char* name : {kDrawnPicture, kOptimality, kRoundScores}) {
    if (!batch.draws.contains(name))
      data_error("train", "the replay file holds no '{}' beside a time; record the pictures that were drawn with their scores", name);
  }
  const optim::Averaged averaged(*trainee.optimizer, &own.old_policy);
  const auto values = values_of(trainee, batch, predictions);
  for (const auto& stream : streams)
    batch.draws[stream.value(kOldPrediction)] = std::get<at::Tensor>(values.at(stream.value("prediction"))).to(at::kFloat).clone();
}

}  // namespace burnish::train
