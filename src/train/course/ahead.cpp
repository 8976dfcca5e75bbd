#include "train/course/ahead.h"

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "io/hash.h"
#include "train/samples/pixels.h"

namespace burnish::train {

namespace {

void add_to(io::Sha256& hash, const std::string& name, const pipeline::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return hash.update(fmt::format("{}\n{}\n{}\n", name, text->size(), *text));
  if (const auto* lists = std::get_if<pipeline::TensorLists>(&value)) {
    for (const auto& list : *lists) {
      hash.update(fmt::format("{}\n{} tensors\n", name, list.size()));
      for (const auto& tensor : list) add_to(hash, name, tensor);
    }
    return;
  }
  auto tensor = std::get<at::Tensor>(value).cpu().contiguous();
  std::string shape;
  for (auto size : tensor.sizes()) shape += fmt::format("{},", size);
  hash.update(fmt::format("{}\n{} {}\n", name, static_cast<int>(tensor.scalar_type()), shape));
  hash.update({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
}

/// Values that the stage is given.
std::set<std::string> reads_of(const pipeline::Stage& stage) {
  std::set<std::string> reads(stage.of_sample.begin(), stage.of_sample.end());
  reads.insert(stage.drawn.begin(), stage.drawn.end());
  return reads;
}

std::string content_key(const pipeline::Stage& stage, const Batch& batch) {
  io::Sha256 hash;
  for (const auto& name : reads_of(stage)) {
    auto draw = batch.draws.find(name);
    if (draw != batch.draws.end()) add_to(hash, name, draw->second);
    else
      for (const auto& sample : batch.samples) add_to(hash, name, in_model_range(pipeline::Values{{name, sample.at(name)}}).at(name));
  }
  return hash.hex().substr(0, 32);
}

data::Tensors run(const pipeline::Stage& stage, const Batch& batch, c10::Device device) {
  std::vector<pipeline::Values> samples;
  for (const auto& sample : batch.samples) samples.push_back(in_model_range(pipeline::moved(sample, device)));
  auto values = pipeline::run(stage, std::move(samples), pipeline::moved(batch.draws, device));
  data::Tensors tensors;
  for (const auto& name : stage.kept) tensors[name] = std::get<at::Tensor>(values.at(name)).cpu();
  return tensors;
}

data::CacheSection& open_section(const models::Model& model, const pipeline::Stage& stage, data::Cache& cache) {
  std::vector<std::string> names;
  for (const auto& unit : stage.units) names.push_back(unit.name);
  auto description = made_by(model, pipeline::models_of(stage.units), cache);
  description["reads"] = reads_of(stage);
  description["stored"] = stage.kept;
  description["by"] = "batch";
  auto& section = cache.section(join(names, "-"), description);
  cache.hashes().save();
  return section;
}

/// Returns what all results take by those that are there, 0 while none is.
double bytes_there(data::CacheSection& section, const std::map<std::string, BatchId>& first) {
  for (const auto& [key, id] : first) {
    if (section.contains(key)) return static_cast<double>(data::num_bytes(section.at(key)) * std::ssize(first));
  }
  return 0;
}

}  // namespace

Ahead compute_ahead(models::Model& model, const pipeline::Schedule& schedule, const Feed& feed, const std::vector<BatchId>& batches,
                    data::Cache& cache, c10::Device device, double byte_limit) {
  at::NoGradGuard no_grad;
  const auto& stage = schedule.ahead;
  Ahead ahead{.results = {&open_section(model, stage, cache), {}}};
  auto& [section, keys] = ahead.results;
  auto stop = [&] {
    section->flush();
    throw Error(Exit::interrupted, "train", fmt::format("interrupted while computing {} ahead; nothing was trained yet", join(stage.kept)));
  };
  std::map<std::string, BatchId> first;  // batch by key
  for (const auto& id : batches) {
    if (interrupted()) stop();
    first.emplace(keys[id] = content_key(stage, feed.batch(stage, id)), id);
  }
  std::vector<std::string> all;
  for (const auto& [key, id] : first) all.push_back(key);
  section->verify(all);
  ahead.num_bytes = bytes_there(*section, first);
  if (ahead.num_bytes >= byte_limit) return ahead;
  std::vector<BatchId> missing;
  for (const auto& [key, id] : first) {
    if (!section->contains(key)) missing.push_back(id);
  }
  ahead.done = true;
  if (missing.empty()) return ahead;
  std::sort(missing.begin(), missing.end());
  Work work{.models = pipeline::models_of(stage.units), .name = join(stage.kept), .num_items = std::ssize(missing), .interrupted = stop};
  work.run = [&](int64_t i) {
    const auto& id = missing[static_cast<size_t>(i)];
    auto tensors = run(stage, feed.batch(stage, id), device);
    ahead.num_bytes = std::max(ahead.num_bytes, static_cast<double>(data::num_bytes(tensors) * std::ssize(first)));
    ahead.done = ahead.num_bytes < byte_limit;
    if (ahead.done) section->add(keys.at(id), std::move(tensors));
    return ahead.done;
  };
  compute(model, work);
  section->flush();
  return ahead;
}

pipeline::Schedule nothing_ahead(const pipeline::Schedule& schedule) {
  auto policy = schedule.policy;
  policy.ahead = false;
  return pipeline::with_policy(schedule, policy);
}

double ahead_limit(const ScheduleSettings& settings, double cache_bytes, const models::Model& model, const pipeline::Schedule& schedule,
                   int64_t num_bytes_kept) {
  auto limit = settings.always_ahead() ? std::numeric_limits<double>::infinity() : static_cast<double>(ahead_weight_bytes(model, schedule));
  if (cache_bytes <= 0) return limit;
  return std::min(limit, cache_bytes - static_cast<double>(num_bytes_kept));
}

int64_t ahead_weight_bytes(const models::Model& model, const pipeline::Schedule& schedule) {
  int64_t bytes = 0;
  auto live = pipeline::models_of(schedule.live.units);
  for (const auto& name : pipeline::models_of(schedule.ahead.units)) {
    if (!contains(live, name)) bytes += model.components().num_bytes(name);
  }
  return bytes;
}

}  // namespace burnish::train
