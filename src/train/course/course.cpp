#include "train/course/course.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "io/hash.h"
#include "train/samples/draws.h"

namespace burnish::train {

namespace {

void check_class_set(const CourseSettings& settings, const Samples& samples) {
  const bool has_any = std::ranges::any_of(samples.list, [&](const auto& sample) { return samples.set_of(sample).of_class_set; });
  if (!has_any && settings.prior_loss_weight != 1)
    config_error("train", "prior_loss_weight weighs the class set, and this run has none; name one in class_metadata_path, or take it out");
}

data::Sampler make_sampler(const CourseSettings& settings, const Samples& samples, int64_t visits_a_batch) {
  check_class_set(settings, samples);
  std::vector<data::SampledRow> rows;
  for (const auto& sample : samples.list) {
    rows.push_back({sample.number, sample.extent, sample.row.subset, {}});
    // Pictures of one size in each column: a column that another row leaves empty is told from this one by a size of nothing.
    for (const auto& [column, extents] : sample.picture_extents) {
      rows.back().references.insert(rows.back().references.end(), extents.begin(), extents.end());
      rows.back().references.push_back({});
    }
    for (const auto& [stream, shape] : sample.further_latents)
      rows.back().further_sizes.insert(rows.back().further_sizes.end(), shape.begin(), shape.end());
    for (const auto& column : samples.columns) {
      if (column.fit == Column::Fit::alike && has_column(sample, column.name))
        rows.back().further_sizes.push_back(static_cast<int64_t>(io::xxh64(sample.row.cells.at(column.name).dump())));
    }
    rows.back().further_sizes.push_back(std::llround(sample.frame_rate * 1000));
    rows.back().strength = samples.set_of(sample).slider_strength;
  }
  std::vector<data::SampledSet> sets;
  for (const auto& set : samples.sets) sets.push_back({set.num_repeats * static_cast<double>(settings.num_repeats), set.of_class_set});
  return {rows, sets, visits_a_batch, settings.seed};
}

std::optional<Rounds> rounds_of(const CourseSettings& settings, const Objective& objective) {
  const auto rule = objective.rounds();
  if (!rule) return {};
  return Rounds(*rule, settings.batches_per_step, settings.visits_a_batch(), settings.seed);
}

/// One of the ways a picture is cut, all equally likely, and perhaps the empty caption or another than the plain one, each by a key of its
/// own.
Pick pick(const data::Visit& visit, const Samples& samples, uint64_t seed) {
  CounterRandom variant(key_of(visit, seed, Purpose::variant)), caption(key_of(visit, seed, Purpose::caption));
  const auto& sample = samples.at(visit.row);
  const auto& set = samples.set_of(sample);
  const auto& rule = set.captions;
  Pick pick{visit.row, static_cast<int64_t>(variant.below(static_cast<uint64_t>(samples.num_variants))), caption.uniform() < rule.dropout};
  if (rule.varies()) pick.caption = data::with_trigger_word(set.trigger_word, data::draw_caption(rule, sample.row.captions, caption));
  return pick;
}

}  // namespace

Course::Course(const CourseSettings& settings, const diffusion::Process& process, const Objective& objective, const Samples& samples,
               const Samples* held_out, std::map<std::string, double> given_shares)
    : settings_(settings),
      objective_(objective),
      samples_(samples),
      held_out_(held_out),
      given_shares_(std::move(given_shares)),
      rounds_(rounds_of(settings, objective)),
      sampler_(make_sampler(settings, samples, rounds_ ? rounds_->num_groups() : settings.visits_a_batch())) {
  if (!settings.replay.empty()) replay_.emplace(settings.replay, process);
  auto batches = batches_per_epoch() * settings.num_epochs;
  num_steps_ = settings.max_steps > 0 ? settings.max_steps : (batches + settings.batches_per_step - 1) / settings.batches_per_step;
}

bool Course::ends_epoch(int64_t step, int64_t every) const {
  auto epochs = [&](int64_t steps) { return steps * batches_per_step() / (every * batches_per_epoch()); };
  return epochs(step) > epochs(step - 1);
}

double Course::visits_an_epoch(size_t set) const { return samples_.sets[set].num_repeats * static_cast<double>(settings_.num_repeats); }

int64_t Course::num_held_out() const { return held_out_ == nullptr ? 0 : std::ssize(held_out_->list) * objective_.num_held_out_draws(); }

void Course::check() const {
  if (!replay_) return;
  replay_->check(num_batches(), [&](int64_t row) {
    for (const auto& sample : samples_.list) {
      if (sample.number == row) return sample.latent_shape;
    }
    return std::vector<int64_t>{};
  });
}

int64_t Course::held_out_row(const BatchId& id) const {
  return held_out_->list.at(static_cast<size_t>(id.number / objective_.num_held_out_draws())).number;
}

BatchPart Course::part_of(int64_t count, const BatchId& id) const {
  const auto& [processes, process, num_places, place, same_parts] = settings_.portion;
  auto first = count * process / processes, mine = count * (process + 1) / processes - first;
  auto in_parts = [&](int64_t visits) { return (visits + settings_.batch_size - 1) / settings_.batch_size; };
  auto parts = in_parts(mine), last = (same_parts ? in_parts((count + processes - 1) / processes) : std::max<int64_t>(parts, 1)) - 1;
  if (id.part >= parts) return {.share = 0, .is_last = id.part == last, .counts = false};
  auto begin = [&](int64_t part) { return (part * mine + parts - 1) / parts; };
  BatchPart part{.first = first + begin(id.part), .count = begin(id.part + 1) - begin(id.part), .is_last = id.part == last};
  part.share = static_cast<double>(part.count) / static_cast<double>(count * num_places);
  part.counts = place == 0;
  return part;
}

BatchVisits Course::batch(const BatchId& id) const {
  if (id.held_out) return {id, {}, {}, {{held_out_row(id)}}};
  if (replay_) return {id, part_of(1, id), {}, {{replay_->row(id.number)}}};
  if (rounds_) return batch_of_round(id);
  auto all = sampler_.batch(id.number);
  auto part = part_of(std::ssize(all), id);
  BatchVisits batch{id, part, {all.begin() + part.first, all.begin() + part.first + part.count}, {}, all.front()};
  for (const auto& visit : batch.visits) batch.picks.push_back(pick(visit, samples_, settings_.seed));
  return batch;
}

BatchVisits Course::pictures_of(int64_t round) const {
  auto visits = rounds_->pictures(sampler_.batch(round));
  BatchVisits all{{.number = round * rounds_->num_batches()}, {.count = std::ssize(visits)}, std::move(visits), {}};
  for (const auto& visit : all.visits) all.picks.push_back(pick(visit, samples_, settings_.seed));
  all.lead = all.visits.front();
  return all;
}

/// A picture is seen under the caption that it was drawn under.
BatchVisits Course::batch_of_round(const BatchId& id) const {
  const auto drawn = pictures_of(rounds_->round_of(id.number));
  const auto seen = rounds_->seen(id.number, std::ssize(drawn.visits));
  const auto visits = rounds_->visits(id.number, drawn.visits);
  BatchVisits batch{id, part_of(std::ssize(visits), id), {}, {}, visits.front()};
  for (auto i = batch.part.first; i < batch.part.first + batch.part.count; ++i) {
    const auto number = seen.at(static_cast<size_t>(i));
    batch.visits.push_back(visits.at(static_cast<size_t>(i)));
    batch.picks.push_back(drawn.picks.at(static_cast<size_t>(number)));
    batch.pictures.push_back(number);
  }
  return batch;
}

DrawRequest Course::request(const BatchVisits& batch, const std::set<std::string>& names) const {
  DrawRequest request{batch.visits, {}, names, batch.lead};
  const auto& samples = batch.id.held_out ? *held_out_ : samples_;
  for (const auto& pick : batch.picks) request.samples.push_back(&samples.at(pick.row));
  if (settings_.stratified_times && !batch.visits.empty()) stratify(batch, request);
  return request;
}

void Course::stratify(const BatchVisits& batch, DrawRequest& request) const {
  const auto step = batch.id.number / batches_per_step();
  diffusion::Strata strata{mix64(RandomKey{settings_.seed, static_cast<uint64_t>(step), 0, Purpose::timestep}.value() ^ mix64("strata")),
                           0};
  request.first_stratum = batch.part.first;
  for (auto number = step * batches_per_step(); number < (step + 1) * batches_per_step(); ++number) {
    const auto visits = visits_of(number);
    strata.count += visits;
    if (number < batch.id.number) request.first_stratum += visits;
  }
  request.strata = strata;
}

/// Held-out samples have the same frames given whenever they are judged, and recorded draws those that they were recorded with.
double Course::draw_given(const BatchVisits& batch, const std::string& name) const {
  const auto& id = batch.id;
  if (!id.held_out && replay_) return 1;
  const RandomKey of_held_out{0, static_cast<uint64_t>(id.number % objective_.num_held_out_draws()),
                              id.held_out ? static_cast<uint64_t>(held_out_row(id)) : 0, Purpose::given};
  const auto key = id.held_out ? of_held_out.value() : key_of(batch.lead, settings_.seed, Purpose::given);
  return CounterRandom(mix64(key ^ mix64(name))).uniform() < given_shares_.at(name) ? 1 : 0;
}

pipeline::Values Course::draws(const BatchVisits& batch, const std::set<std::string>& names) const {
  const auto& id = batch.id;
  auto asked = request(batch, names);
  pipeline::Values draws;
  if (id.held_out) {
    draws = objective_.held_out_draws(asked, id.number % objective_.num_held_out_draws());
  } else if (replay_) {
    draws = replay_->draws(id.number, asked.samples.at(0)->latent_shape, names);
    for (const auto& [stream, shape] : asked.samples.at(0)->further_latents) {
      auto noise = models::stream_value(stream, "noise");
      if (names.contains(noise)) draws[noise] = replay_->noise(id.number, noise, shape);
    }
    draws.merge(replay_->others(id.number, names));
  } else {
    draws = objective_.draws(asked);
  }
  const auto& samples = id.held_out ? *held_out_ : samples_;
  std::vector<double> weights, of_class_set;
  for (const auto* sample : asked.samples) {
    const bool is_of_class_set = samples.set_of(*sample).of_class_set;
    weights.push_back(sample->row.loss_weight * (is_of_class_set ? settings_.prior_loss_weight : 1));
    of_class_set.push_back(is_of_class_set ? 1 : 0);
  }
  if (names.contains(kOfClassSet)) draws[kOfClassSet] = at::tensor(of_class_set, at::TensorOptions().dtype(at::kFloat));
  if (names.contains(kSliderStrength))
    draws[kSliderStrength] = at::scalar_tensor(samples.set_of(*asked.samples.at(0)).slider_strength, at::kDouble);
  draws[kLossWeight] = at::tensor(weights, at::TensorOptions().dtype(at::kFloat));
  if (names.contains(kPhase))
    draws[kPhase] = at::scalar_tensor(objective_.phase_of(id.number / settings_.batches_per_step), at::TensorOptions().dtype(at::kLong));
  for (const auto& [name, share] : given_shares_) {
    if (names.contains(name) && !draws.contains(name)) draws[name] = at::scalar_tensor(draw_given(batch, name), at::kDouble);
  }
  objective_.complete(draws);
  return draws;
}

}  // namespace burnish::train
