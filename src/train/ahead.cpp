#include "train/ahead.h"

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "io/hash.h"

namespace burnish::train {

namespace {

/// To be raised when a unit computes something else than it did from the same inputs and weights.
constexpr int kUnitsVersion = 1;

void add_to(io::Sha256& hash, const std::string& name, const pipeline::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return hash.update(fmt::format("{}\n{}\n{}\n", name, text->size(), *text));
  auto tensor = std::get<at::Tensor>(value).cpu().contiguous();
  std::string shape;
  for (auto size : tensor.sizes()) shape += fmt::format("{},", size);
  hash.update(fmt::format("{}\n{} {}\n", name, static_cast<int>(tensor.scalar_type()), shape));
  hash.update({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
}

int64_t bytes_of(const data::Tensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

Ahead::Ahead(models::Model& model, const pipeline::Cut& cut, const pipeline::Cut& ahead, const std::set<std::string>& draws,
             data::Cache& cache, c10::Device device)
    : model_(model),
      cache_(cache),
      visit_({cut.prepare, ahead.prepare, cut.carried}, draws, {}),
      device_(device),
      models_(pipeline::models_of(ahead.prepare)),
      carried_(ahead.carried) {
  std::set<std::string> written;
  std::vector<std::string> names;
  for (const auto& unit : ahead.prepare) {
    for (const auto& name : unit.reads) {
      if (!written.contains(name)) reads_.insert(name);
    }
    written.insert(unit.writes.begin(), unit.writes.end());
    names.push_back(unit.name);
  }
  auto made_by = nlohmann::json::object();
  for (const auto& name : models_) {
    auto made = model.provenance(name);
    made_by[name] = {{"settings", made.settings}, {"files", nlohmann::json::array()}};
    if (cache.on_disk()) made_by[name]["files"] = cache.hashes().hash(made.files);
  }
  section_ = &cache.section(join(names, "-"), {{"version", kUnitsVersion},
                                               {"family", model.family()},
                                               {"reads", reads_},
                                               {"stored", carried_},
                                               {"models", made_by},
                                               {"by", "batch"}});
  cache.hashes().save();
}

int64_t Ahead::num_weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& name : models_) bytes += model_.num_bytes(name);
  return bytes;
}

std::string Ahead::key(const Batch& batch) const {
  io::Sha256 hash;
  for (const auto& name : reads_) {
    auto draw = batch.draws.find(name);
    if (draw != batch.draws.end()) add_to(hash, name, draw->second);
    else
      for (const auto& sample : batch.samples) add_to(hash, name, sample.at(name));
  }
  return hash.hex().substr(0, 32);
}

data::Tensors Ahead::compute(const Batch& batch) const {
  std::vector<pipeline::Values> samples;
  for (const auto& sample : batch.samples) samples.push_back(pipeline::moved(sample, device_));
  auto values = visit_.run(std::move(samples), pipeline::moved(batch.draws, device_));
  data::Tensors tensors;
  for (const auto& name : carried_) tensors[name] = std::get<at::Tensor>(values.at(name)).cpu();
  return tensors;
}

void Ahead::check_interrupt() const {
  if (!interrupted()) return;
  section_->flush();
  throw Error(Exit::interrupted, "train", fmt::format("interrupted while computing {} ahead; nothing was trained yet", join(carried_)));
}

bool Ahead::compute(int64_t count, const std::function<Batch(int64_t)>& batch, double byte_limit) {
  at::NoGradGuard no_grad;
  std::map<std::string, int64_t> first;  // batch by key
  for (int64_t i = 0; i < count; ++i) {
    check_interrupt();
    first.emplace(key(batch(i)), i);
  }
  std::vector<std::string> keys;
  for (const auto& [key, index] : first) keys.push_back(key);
  section_->verify(keys);
  std::vector<int64_t> missing;
  for (const auto& [key, index] : first) {
    if (section_->contains(key)) num_bytes_ = static_cast<double>(bytes_of(section_->at(key)) * std::ssize(first));
    else missing.push_back(index);
  }
  if (num_bytes_ >= byte_limit) return false;
  if (missing.empty()) return is_complete_ = true;
  std::sort(missing.begin(), missing.end());
  for (const auto& name : models_) model_.load(name);
  Progress progress(join(carried_), std::ssize(missing));
  bool pays = true;
  for (int64_t done = 0; pays && done < std::ssize(missing); progress.update(++done)) {
    check_interrupt();
    auto given = batch(missing[static_cast<size_t>(done)]);
    auto tensors = compute(given);
    num_bytes_ = std::max(num_bytes_, static_cast<double>(bytes_of(tensors) * std::ssize(first)));
    pays = num_bytes_ < byte_limit;
    if (pays) section_->add(key(given), std::move(tensors));
  }
  section_->flush();
  for (const auto& name : models_) model_.unload(name);
  return is_complete_ = pays;
}

pipeline::Values Ahead::values(const Batch& batch) const {
  auto at = key(batch);
  if (!section_->contains(at)) throw std::logic_error("a batch was not among those computed ahead");
  pipeline::Values values;
  for (const auto& [name, tensor] : section_->at(at)) values[name] = tensor;
  return values;
}

}  // namespace burnish::train
