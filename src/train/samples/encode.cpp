#include "train/samples/encode.h"

#include <ATen/ops/isfinite.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/read_ahead.h"
#include "io/hash.h"
#include "train/samples/pixels.h"

namespace burnish::train {

namespace {

/// What one unit makes of all items.
struct Results {
  pipeline::Unit unit;
  data::CacheSection* section = nullptr;              ///< null when nothing it writes is kept
  std::vector<std::string> stored = {};               ///< what it writes and is kept
  std::vector<std::string> keys = {};                 ///< by item; "" where the unit does not apply (no picture)
  std::set<std::string> demanded = {};                ///< keys whose results a later unit computes with
  std::vector<size_t> to_compute = {};                ///< the first item of each missing key
  std::map<std::string, data::Tensors> passing = {};  ///< results for later units only, by key
};

/// Finds the key of every result, and computes those that the cache lacks, unit by unit. Items are the picks in order, then the empty
/// caption.
class Encoding {
 public:
  Encoding(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, data::Cache& cache, std::vector<Pick> picks,
           Portion portion);
  Kept run(const std::set<std::string>& by_block);

 private:
  void hash_files();
  void open(const pipeline::Unit& unit, const std::vector<std::string>& kept);
  std::string content_of(const pipeline::Unit& unit, size_t item) const;
  const Results* writer(const std::string& value, size_t before) const;
  void plan(size_t index, Portion portion);
  void compute(size_t index, const std::set<std::string>& by_block);
  void compute_item(size_t index, size_t item, pipeline::Values pictures);
  pipeline::Values pictures_of(size_t index, size_t item) const;
  pipeline::Values inputs_of(size_t index, size_t item, pipeline::Values values) const;
  void check_unchanged(const pipeline::Unit& unit, size_t item) const;
  void check_finite(const pipeline::Unit& unit, const std::string& name, const at::Tensor& value, size_t item) const;
  CacheSlots entries(size_t item) const;

  models::Model& model_;
  const Samples& samples_;
  data::Cache& cache_;
  Kept kept_;
  std::vector<Pick> items_;
  std::vector<Results> results_;
};

Encoding::Encoding(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, data::Cache& cache,
                   std::vector<Pick> picks, Portion portion)
    : model_(model), samples_(samples), cache_(cache), items_(std::move(picks)) {
  hash_files();
  items_.push_back({kNoRow});
  for (const auto& unit : schedule.once.units) open(unit, schedule.once.kept);
  cache.hashes().save();
  for (size_t i = results_.size(); i-- > 0;) plan(i, portion);
}

void Encoding::hash_files() {
  std::vector<std::filesystem::path> files;
  std::vector<std::string*> hashes;
  auto add = [&](const std::string& file, std::string& hash) {
    files.emplace_back(file);
    hashes.push_back(&hash);
  };
  for (const auto& sample : samples_.list) {
    auto& of_row = kept_.hashes[sample.number] = {{"", ""}};
    if (samples_.pictures == nullptr) continue;
    add(samples_.pictures->row(sample.number).file, of_row[""]);
    for (const auto& [column, file] : samples_.pictures->row(sample.number).further) add(file, of_row[column]);
  }
  auto found = cache_.hashes().hash(files);
  for (size_t i = 0; i < found.size(); ++i) *hashes[i] = found[i];
}

void Encoding::open(const pipeline::Unit& unit, const std::vector<std::string>& kept) {
  Results added{.unit = unit};
  std::copy_if(unit.writes.begin(), unit.writes.end(), std::back_inserter(added.stored), [&](const auto& n) { return contains(kept, n); });
  auto description = made_by(model_, unit.models, cache_);
  description["reads"] = unit.reads;
  description["stored"] = added.stored;
  if (!unit.settings.empty()) description["settings"] = unit.settings;
  if (!added.stored.empty()) added.section = &cache_.section(unit.name, description);
  // Results that are not stored still have keys, since those of later units are made of them.
  auto made = io::sha256(unit.name + description.dump());
  for (size_t i = 0; i < items_.size(); ++i) {
    auto content = content_of(unit, i);
    added.keys.push_back(content.empty() ? "" : io::sha256(made + content).substr(0, 32));
  }
  if (added.section) added.section->verify(added.keys);
  results_.push_back(std::move(added));
}

/// The results that hold a value when the unit of index `before` runs, or null for an input.
const Results* Encoding::writer(const std::string& value, size_t before) const {
  for (size_t i = before; i-- > 0;) {
    if (contains(results_[i].unit.writes, value)) return &results_[i];
  }
  return nullptr;
}

/// The contents of what the next unit reads, or "" when the item lacks one of them.
std::string Encoding::content_of(const pipeline::Unit& unit, size_t item) const {
  static const data::RowHashes none;
  const auto row = items_[item].row;
  const auto& hashes = row == kNoRow ? none : kept_.hashes.at(row);
  std::string text;
  for (const auto& name : unit.reads) {
    const auto* from = writer(name, results_.size());
    const auto* input = samples_.inputs->find(name);
    if (!from && !input) throw std::logic_error("nobody gives '" + name + "', which unit '" + unit.name + "' reads");
    auto content = from ? from->keys[item] : input->content(samples_, items_[item], hashes);
    if (content.empty()) return "";
    text += fmt::format("\n{}: {}", name, content);
  }
  return text;
}

/// Items of which each is the first of its key.
std::vector<size_t> first_items(const Results& results) {
  std::vector<size_t> first;
  std::set<std::string> seen;
  for (size_t i = 0; i < results.keys.size(); ++i) {
    if (!results.keys[i].empty() && seen.insert(results.keys[i]).second) first.push_back(i);
  }
  return first;
}

/// Which keys have to be computed, once all later units are planned. The distinct keys are shared out in runs of neighbours, whatever is in
/// the cache, so that all processes agree on who does what.
void Encoding::plan(size_t index, Portion portion) {
  auto& results = results_[index];
  auto items = first_items(results);
  for (size_t position = 0; position < items.size(); ++position) {
    const auto& key = results.keys[items[position]];
    bool stored = results.section && results.section->contains(key);
    bool mine = static_cast<int64_t>(position) * portion.num_processes / std::ssize(items) == portion.process_index;
    bool only_passing = results.stored.size() < results.unit.writes.size() || !stored;
    if ((results.section && !stored && mine) || (results.demanded.contains(key) && only_passing))
      results.to_compute.push_back(items[position]);
  }
  for (auto item : results.to_compute) {
    for (const auto& name : results.unit.reads) {
      const auto* from = writer(name, index);
      if (from) results_[static_cast<size_t>(from - results_.data())].demanded.insert(from->keys[item]);
    }
  }
}

Kept Encoding::run(const std::set<std::string>& by_block) {
  for (size_t i = 0; i < results_.size(); ++i) compute(i, by_block);
  for (size_t i = 0; i + 1 < items_.size(); ++i) kept_.by_row[items_[i].row].push_back(entries(i));
  kept_.empty_caption = entries(items_.size() - 1);
  return std::move(kept_);
}

void Encoding::compute(size_t index, const std::set<std::string>& by_block) {
  auto& results = results_[index];
  if (cache_.on_disk() && results.section)
    info("{}: {} of {} results to compute, the others are in the cache", results.unit.name, results.to_compute.size(),
         first_items(results).size());
  if (results.to_compute.empty()) return;
  // Pictures are decoded while the one before is encoded, the first while the models are loaded.
  const auto num_workers = samples_.pictures ? samples_.pictures->options().num_workers : 0;
  data::ReadAhead<pipeline::Values> pictures(std::ssize(results.to_compute), num_workers,
                                             [&](int64_t i) { return pictures_of(index, results.to_compute[static_cast<size_t>(i)]); });
  Work work{.models = results.unit.models, .name = results.unit.name, .num_items = std::ssize(results.to_compute)};
  const auto large = std::ranges::find_if(work.models, [&](const auto& name) { return by_block.contains(name); });
  if (large != work.models.end()) work.by_block = *large;
  work.run = [&](int64_t i) {
    compute_item(index, results.to_compute[static_cast<size_t>(i)], pictures.next());
    return true;
  };
  work.interrupted = [&] {
    if (results.section) results.section->flush();
    throw Error(Exit::interrupted, "train",
                cache_.on_disk() ? "interrupted while preparing the data; what was computed is in the cache, give the same command again"
                                 : "interrupted while preparing the data; nothing was trained yet");
  };
  train::compute(model_, work);
  if (results.section) results.section->flush();
}

void Encoding::compute_item(size_t index, size_t item, pipeline::Values pictures) {
  auto& results = results_[index];
  auto values = in_model_range(inputs_of(index, item, std::move(pictures)), model_.device());
  pipeline::run({results.unit}, values);
  data::Tensors stored, passing;
  for (const auto& name : results.unit.writes) {
    auto& value = values.at(name);
    pipeline::change_tensors(value, [&](const at::Tensor& tensor) {
      auto there = tensor.cpu();
      check_finite(results.unit, name, there, item);
      return there;
    });
    put(contains(results.stored, name) ? stored : passing, name, value);
  }
  const auto& key = results.keys[item];
  if (results.section) results.section->add(key, std::move(stored));
  if (results.demanded.contains(key)) results.passing[key] = std::move(passing);
}

void Encoding::check_finite(const pipeline::Unit& unit, const std::string& name, const at::Tensor& value, size_t item) const {
  if (at::isfinite(value).all().item<bool>()) return;
  auto what = items_[item].row != kNoRow ? fmt::format("row {}", items_[item].row) : "the empty caption";
  data_error("train", "{}: the {} that {} gives are not finite; its weights are damaged, or too large for this dtype: try --dtype fp32",
             what, name, join(unit.models));
}

/// What the unit reads of files, not of the list of samples or of another unit. Called on several threads at once.
pipeline::Values Encoding::pictures_of(size_t index, size_t item) const {
  pipeline::Values values;
  for (const auto& name : results_[index].unit.reads) {
    const auto* input = writer(name, index) ? nullptr : samples_.inputs->find(name);
    if (input != nullptr && !input->in_list) values[name] = input->load(samples_, items_[item]);
  }
  return values;
}

pipeline::Values Encoding::inputs_of(size_t index, size_t item, pipeline::Values values) const {
  const auto& unit = results_[index].unit;
  for (const auto& name : unit.reads) {
    if (values.contains(name)) continue;
    if (const auto* from = writer(name, index)) {
      const auto& key = from->keys[item];
      values[name] = take(contains(from->stored, name) ? from->section->at(key) : from->passing.at(key), name);
    } else {
      values[name] = samples_.inputs->find(name)->load(samples_, items_[item]);
    }
  }
  check_unchanged(unit, item);
  return values;
}

/// What is encoded is what the key names: a picture that was changed while it was read is refused.
void Encoding::check_unchanged(const pipeline::Unit& unit, size_t item) const {
  const auto row = items_[item].row;
  bool needs_files = std::ranges::any_of(unit.reads, [&](const auto& name) {
    const auto* input = samples_.inputs->find(name);
    return input != nullptr && !input->in_list;
  });
  if (!cache_.on_disk() || row == kNoRow || samples_.pictures == nullptr || !needs_files) return;
  auto check = [&](const std::string& file, const std::string& hash) {
    if (cache_.hashes().hash(std::filesystem::path(file)) != hash)
      data_error("train", "the picture {} was changed while this run was reading it; give the same command again", file);
  };
  const auto& hashes = kept_.hashes.at(row);
  check(samples_.pictures->row(row).file, hashes.at(""));
  for (const auto& [column, file] : samples_.pictures->row(row).further) check(file, hashes.at(column));
}

CacheSlots Encoding::entries(size_t item) const {
  CacheSlots entries;
  for (const auto& results : results_) {
    for (const auto& name : results.stored) {
      if (!results.keys[item].empty()) entries[name] = {results.section, results.keys[item]};
    }
  }
  return entries;
}

std::vector<Pick> variants_of(const Samples& samples) {
  std::vector<Pick> picks;
  for (const auto& sample : samples.list) {
    for (int64_t variant = 0; variant < samples.num_variants; ++variant) picks.push_back({sample.number, variant});
  }
  return picks;
}

}  // namespace

Kept encode_picks(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, data::Cache& cache,
                  std::vector<Pick> picks, const std::set<std::string>& by_block) {
  return Encoding(model, schedule, samples, cache, std::move(picks), {}).run(by_block);
}

Kept encode(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, data::Cache& cache, Portion portion,
            const std::set<std::string>& by_block) {
  if (!schedule.once.units.empty()) return Encoding(model, schedule, samples, cache, variants_of(samples), portion).run(by_block);
  Kept nothing;
  for (const auto& sample : samples.list) nothing.by_row[sample.number].resize(static_cast<size_t>(samples.num_variants));
  return nothing;
}

}  // namespace burnish::train
