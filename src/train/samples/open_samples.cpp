#include "train/samples/open_samples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/input_error.h"
#include "base/text.h"
#include "data/read_row.h"
#include "data/several.h"
#include "models/model/columns.h"
#include "train/samples/check_columns.h"
#include "train/samples/compute.h"
#include "train/samples/diffsynth_cache.h"
#include "train/samples/sample_list.h"

namespace burnish::train {

namespace {

constexpr double kManyVisits = 1024;

/// The frames of the shortest target: one, of layers as many as the fewest that a picture has.
int64_t fewest_frames(const models::LatentSpace& space) { return space.has_layers ? space.first_frames : 1; }

/// Rows of layers say by their files how many they have.
void check_no_length(const data::Subset& subset, const Column& target) {
  if (target.is == Column::Is::layers && subset.clips.num_frames > 0)
    config_error("train",
                 "num_frames {} is the length of clips, and rows of this model say by their files how many layers they have; take it out",
                 subset.clips.num_frames);
}

/// The columns that a run reads of rows: those of its model, those whose cells its objective reads, and pictures that are cut alike.
Columns columns_of(const models::Model& model, const SampleNeeds& needs, const Columns& pictures) {
  auto columns = models::columns_of_rows(models::columns_of(model));
  for (const auto& name : needs.columns) columns.push_back({.name = name, .is = Column::Is::text});
  columns.insert(columns.end(), pictures.begin(), pictures.end());
  return columns;
}

/// Has a subset take what the model takes. A model that counts seconds by a rate of its own hears sounds beside clips of that rate alone.
void fit(data::Subset& subset, const models::Model& model, const Columns& columns) {
  const auto& target = target_of(columns);
  model.latent_space().rate_of(data::number_of(subset.clips.rate));
  data::fit(subset, target);
  const bool hears = std::ranges::any_of(columns, [](const auto& column) { return column.is == Column::Is::sound; });
  if (hears && target.frames.rate_use == Column::RateUse::fixed) subset.clips.may_be_slower = false;
}

std::unique_ptr<data::Dataset> open_pictures(data::DatasetOptions options, const models::Model& model, const SampleNeeds& needs) {
  options.columns = columns_of(model, needs, options.columns);
  for (auto& subset : options.subsets) {
    check_no_length(subset, target_of(options.columns));
    fit(subset, model, options.columns);
  }
  return std::make_unique<data::Dataset>(options);
}

data::MetadataOrigin absolute(data::MetadataOrigin origin) {
  for (auto* path : {&origin.path, &origin.captions.mask_folder}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  return origin;
}

/// Tells whether the model reads the rate of a sample's frames, which a still has none of.
bool reads_rate(const Column& target, const Sample& sample) {
  return target.frames.rate_use == Column::RateUse::read && is_clip_of(target, sample.extent);
}

/// The shapes of the further streams' latents.
void add_streams(Sample& sample, const models::LatentSpace& space) {
  for (const auto& stream : std::span(space.streams).subspan(1)) {
    auto& shape = sample.further_latents[stream.name] = space.shape(stream, sample.extent, sample.frame_rate);
    if (!stream.column.empty() && !has_column(sample, stream.column)) shape.at(1) = 0;
  }
}

/// The extents at which the denoiser sees what a row has in columns of pictures and clips.
std::map<std::string, std::vector<Extent>> extents_of(const data::Dataset& pictures, int64_t row, const models::Model& model) {
  std::map<std::string, std::vector<Extent>> extents;
  for (const auto& column : pictures.options().columns) {
    if (column.is == Column::Is::pictures) {
      auto& of_column = extents[column.name] = {};
      for (const auto& crop : data::picture_crops(pictures, row, column)) {
        auto given = data::extent_of(crop.size);
        of_column.push_back(column.read_as() == kReferences ? model.seen_reference(given) : given);
      }
    } else if (column.is == Column::Is::references) {
      auto& of_column = extents[column.name] = {};
      for (const auto& given : data::reference_extents(pictures, row)) of_column.push_back(model.seen_reference(given));
    } else if (find_column(model.names().extra_inputs, column.name) != nullptr && column.is_seen()) {
      const auto beside = column.extent_beside(pictures.extent(row));
      const auto num_named = data::files_in(pictures.row(row), column.name).size();
      const auto num_files = data::takes_several(column) ? num_named : std::min<size_t>(num_named, 1);  // of layers one for all
      extents[column.name].assign(num_files == 0 && column.given == Column::Given::or_white ? 1 : num_files, beside);
    }
  }
  return extents;
}

data::Row with_whole_paths(data::Row row) {
  row.file = std::filesystem::absolute(row.file).string();
  for (auto& [name, file] : row.further) file = std::filesystem::absolute(file).string();
  return row;
}

Sample sample_of(const data::Dataset& pictures, int64_t number, const models::Model& model) {
  Sample sample{.number = number, .extent = pictures.extent(number), .row = with_whole_paths(pictures.row(number))};
  sample.latent_shape = model.latent_space().shape(sample.extent);
  sample.picture_extents = extents_of(pictures, number, model);
  if (reads_rate(target_of(pictures.options().columns), sample)) sample.frame_rate = data::frame_rate(pictures, number);
  add_streams(sample, model.latent_space());
  return sample;
}

Samples samples_of(std::unique_ptr<data::Dataset> pictures, const models::Model& model) {
  Samples samples;
  for (auto row : pictures->rows()) samples.list.push_back(sample_of(*pictures, row, model));
  samples.num_variants = data::num_variants(*pictures);
  samples.sets.clear();
  samples.origins.clear();
  for (const auto& subset : pictures->options().subsets) samples.sets.push_back(subset.visits);
  for (const auto& origin : pictures->origins()) samples.origins.push_back(absolute(origin));
  samples.columns = pictures->options().columns;
  for (const auto& column : models::columns_of(model)) {
    if (column.name != kTarget) samples.extra_inputs.push_back(column.name);
  }
  samples.pictures = std::move(pictures);
  return samples;
}

/// Checks that the model takes the sizes which datasets are given.
void check_sizes(const DataSettings& settings, const models::Model& model) {
  const auto& space = model.latent_space();
  for (const auto& subset : settings.pictures.subsets) {
    if (subset.size.height > 0) space.check(data::extent_of(subset.size.fixed(), fewest_frames(space)));
  }
}

Samples look_at_pictures(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs) {
  check_sizes(settings, model);
  auto pictures = open_pictures(settings.pictures, model, needs);
  check_any(*pictures);
  auto samples = samples_of(std::move(pictures), model);
  samples.inputs = settings.inputs;
  return samples;
}

/// Puts something of each column into a sample of a plan: its example, or a picture of its size, or of a list as many as its example says.
void add_examples(Sample& sample, const Columns& columns, const models::Model& model) {
  for (const auto& column : columns) {
    const auto beside = column.extent_beside(sample.extent);
    if (column.fit == Column::Fit::target) continue;
    if (!column.is_seen()) sample.row.cells[column.name] = column.words.example;
    else if (column.words.example == "0") sample.picture_extents[column.name] = {};
    else sample.picture_extents[column.name] = {column.read_as() == kReferences ? model.seen_reference(beside) : beside};
  }
}

/// One of each size that is asked for, with a picture of that size in each column that the model reads, visited so often that batches are
/// full: what a plan makes do with.
Samples without_pictures(const DataSettings& settings, const models::Model& model) {
  check_sizes(settings, model);
  Samples samples;
  samples.columns = models::columns_of_rows(models::columns_of(model));
  samples.sets.clear();
  for (auto subset : settings.pictures.subsets) {
    fit(subset, model, samples.columns);
    data::check_rule(subset.clips);
    const auto& rule = subset.size;
    auto size = data::target_size(rule, rule.buckets ? rule.buckets->resolution : rule.fixed(), "a picture");
    Sample sample;
    sample.number = std::ssize(samples.sets);
    sample.extent = data::extent_of(size, std::max(fewest_frames(model.latent_space()), subset.clips.num_frames));
    sample.row.prompt = subset.prompt;
    sample.row.captions = {{subset.prompt}};
    sample.latent_shape = model.latent_space().shape(sample.extent);
    sample.row.loss_weight = subset.loss_weight;
    sample.row.subset = samples.sets.size();
    add_examples(sample, samples.columns, model);
    if (reads_rate(target_of(samples.columns), sample)) sample.frame_rate = data::number_of(subset.clips.rate);
    add_streams(sample, model.latent_space());
    samples.list.push_back(std::move(sample));
    samples.sets.push_back({.num_repeats = kManyVisits * subset.visits.num_repeats, .captions = subset.visits.captions});
  }
  return samples;
}

bool lack(const data::DatasetOptions& pictures) {
  return std::ranges::any_of(pictures.subsets, [](const auto& subset) { return subset.metadata_path.empty(); });
}

bool is_foreign(const std::string& folder) { return !data::is_cache(folder) && !diffsynth_files(folder).empty(); }

/// What later stages read of a sample must be in the cache's list when there are no pictures.
void check_inputs_in_cache(const Samples& samples, const pipeline::Schedule& schedule, const std::string& folder) {
  for (const auto& name : schedule.sample_inputs()) {
    const auto* input = samples.inputs->find(name);
    if (input != nullptr && input->in_list && (samples.has_captions || name == kRateOfFrames || name == kNumFrames)) continue;
    if (input != nullptr && input->in_list)
      data_error("train", "what trains reads captions at every visit, and the cache {} lists none; make it again", folder);
    data_error("train", "what trains reads the {} at every visit, which a cache does not hold; choose task sft with --cache_path", name);
  }
}

/// What units with settings of their own made must have been made with these. What another program made says nothing of them.
void check_settings(const Listed& listed, const pipeline::Schedule& schedule, const std::string& folder) {
  for (const auto& unit : schedule.once.units) {
    for (const auto& [name, place] : listed.kept.by_row.begin()->second.front()) {
      if (unit.settings.empty() || !contains(unit.writes, name)) continue;
      const auto description = nlohmann::json::parse(place.section->description());
      if (description.contains("from")) continue;
      auto made = description.value("settings", "");
      if (made != unit.settings)
        data_error("train", "the {} in the cache {} was made with {}, and this run asks for {}; make it again, or ask for the same", name,
                   folder, made, unit.settings);
    }
  }
}

/// A cache is trained from with the LoRAs that were merged into its models when it was made.
void check_same_presets(const Listed& listed, const models::Model& model, data::Cache& cache) {
  for (const auto& [value, place] : listed.kept.by_row.begin()->second.front()) check_merged(model, *place.section, cache);
}

/// The sizes of a value that is kept of a sample, without the batch.
std::vector<int64_t> kept_shape(const Listed& listed, const Sample& sample, const std::string& name) {
  return std::get<at::Tensor>(listed.kept.values({sample.number}, {name}).at(name)).sizes().slice(1).vec();
}

/// From the latents that are kept; from the size of the picture where none are.
void find_latent_shapes(Listed& listed, const models::Model& model, const std::vector<std::string>& kept) {
  auto name = std::find_if(kept.begin(), kept.end(), [](const auto& n) { return n == "latents" || n == "latents_mean"; });
  for (auto& sample : listed.samples.list) {
    sample.latent_shape = name == kept.end() ? model.latent_space().shape(sample.extent) : kept_shape(listed, sample, *name);
    add_streams(sample, model.latent_space());
    for (auto& [stream, shape] : sample.further_latents) {
      if (contains(kept, stream)) shape = kept_shape(listed, sample, stream);
    }
  }
}

/// Sides of samples are to each other as sides of their latents, and of as many frames there are as many latents, by which batches are
/// made; a list that was changed by hand may say otherwise. How many pixels a latent stands for, the autoencoder says that made them, which
/// need not be here.
void check_extents(const Samples& samples, const std::string& folder) {
  std::map<int64_t, const Sample*> first_of_frames;
  for (const auto& sample : samples.list) {
    const auto& other = *first_of_frames.emplace(sample.extent.frames, &sample).first->second;
    const std::span<const int64_t> shape = sample.latent_shape, known = other.latent_shape;
    const bool fits = shape.size() >= 2 && shape.size() == known.size() &&
                      std::ranges::equal(shape.first(shape.size() - 2), known.first(known.size() - 2)) &&
                      sample.extent.height * known[known.size() - 2] == other.extent.height * shape[shape.size() - 2] &&
                      sample.extent.width * known.back() == other.extent.width * shape.back();
    if (!fits)
      data_error(
          "train",
          "the list of the cache {} says that row {} is {} with latents of {}, beside which row {} is {} with latents of {}; one of them "
          "is wrong: make the cache again",
          folder, sample.number, spelled(sample.extent), sample.latent_shape, other.number, spelled(other.extent), other.latent_shape);
  }
}

/// A cache of another program says nothing of the sizes of reference pictures, which samples of a batch have in common: they are those of
/// their latents.
void find_reference_extents(Listed& listed, const models::Model& model) {
  const std::string name = "latents_of_references";
  const auto* column = find_read_as(listed.samples.columns, kReferences);
  const auto spatial = model.latent_space().streams.front().spatial;
  for (auto& sample : listed.samples.list) {
    if (column == nullptr || !listed.kept.by_row.at(sample.number).front().contains(name)) continue;
    auto& extents = sample.picture_extents[column->name];
    auto values = listed.kept.values({sample.number}, {name});
    for (const auto& latents_CHW : std::get<pipeline::TensorLists>(values.at(name)).at(0))
      extents.push_back({.height = latents_CHW.size(-2) * spatial, .width = latents_CHW.size(-1) * spatial});
  }
}

/// That the texts which options give are those that the cache was made with.
void check_options_of_cache(const Listed& listed, const pipeline::Schedule& schedule, const std::filesystem::path& folder) {
  const auto& made = listed.kept.digests;
  const auto now = digests_of_options(listed.samples);
  for (const auto& unit : schedule.once.units) {
    for (const auto& name : unit.reads) {
      const auto of_cache = made.find(name);
      if (of_cache != made.end() && now.at(name) != of_cache->second)
        data_error("train", "the cache {} was made with another {} than this run has; give the one that it was made with, or make it again",
                   folder.string(), listed.samples.inputs->find(name)->option);
    }
  }
}

Listed open_list(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs, const pipeline::Schedule& schedule,
                 data::Cache& cache) {
  const auto& folder = settings.list_folder;
  const auto& kept = schedule.once.kept;
  auto listed =
      is_foreign(folder) ? import_diffsynth(folder, kept, model.names().diffsynth_values(), needs.columns, cache) : read_list(cache, kept);
  for (auto& set : listed.samples.sets) {
    if (settings.caption_dropout > 0) set.captions.dropout = settings.caption_dropout;
  }
  check_same_presets(listed, model, cache);
  check_shapes(listed, model.names().shapes(), kept);
  check_settings(listed, schedule, folder);
  listed.samples.inputs = settings.inputs;
  listed.samples.columns = models::columns_of_rows(models::columns_of(model));
  check_inputs_in_cache(listed.samples, schedule, folder);
  if (is_foreign(folder)) find_reference_extents(listed, model);
  else check_options_of_cache(listed, schedule, folder);
  check_pictures_read(listed.samples, folder);
  find_latent_shapes(listed, model, kept);
  if (!is_foreign(folder)) check_extents(listed.samples, folder);
  return listed;
}

}  // namespace

void check_shapes(const Listed& listed, const std::map<std::string, std::vector<int64_t>>& expected,
                  const std::vector<std::string>& names) {
  for (const auto& sample : listed.samples.list) {
    for (const auto& [name, value] : listed.kept.values({sample.number}, names)) {
      bool is_moment = name == "latents_mean" || name == "latents_logvar";
      auto shape = expected.find(is_moment ? "latents" : name);
      if (shape == expected.end()) continue;
      auto found = std::get<at::Tensor>(value).sizes().vec();
      auto fits = std::equal(shape->second.begin(), shape->second.end(), found.begin(), found.end(),
                             [](auto want, auto is) { return want < 0 || want == is; });
      if (fits) continue;
      data_error("train",
                 "the {} of row {} in the cache has the shape {}, and this denoiser takes {} (-1: any size); it was made for another model",
                 name, sample.number, found, shape->second);
    }
  }
}

std::unique_ptr<data::Cache> open_cache(const DataSettings& settings) {
  if (settings.from_pictures) return std::make_unique<data::Cache>(settings.cache_folder);
  const auto& folder = settings.list_folder;
  bool foreign = is_foreign(folder);
  if (!foreign && !data::is_cache(folder))
    data_error("train", "{} holds no cache; make one with --task sft:data_process --output_path {}", folder, folder);
  if (!foreign && settings.is_import)
    data_error("train", "{} is a cache of burnish already; train from it with --task sft:train --dataset_base_path {}", folder, folder);
  return std::make_unique<data::Cache>(foreign ? settings.cache_folder : folder);
}

namespace {

/// Tells whether one of a run's datasets is visited in such a way, by the options or by the list of the cache that is trained from.
bool any_set(const DataSettings& settings, const std::function<bool(const data::VisitRule&)>& is_so) {
  if (settings.from_pictures) return std::ranges::any_of(settings.pictures.subsets, is_so, &data::Subset::visits);
  return !is_foreign(settings.list_folder) && std::ranges::any_of(read_list_head(settings.list_folder).sets, is_so);
}

}  // namespace

bool captions_vary(const DataSettings& settings) {
  return any_set(settings, [](const auto& set) { return set.captions.varies(); });
}

bool strengths_vary(const DataSettings& settings) {
  return any_set(settings, [](const auto& set) { return set.slider_strength != 1; });
}

Listed open_samples(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs, const pipeline::Schedule& schedule,
                    data::Cache& cache) {
  if (settings.from_pictures && lack(settings.pictures)) {
    Listed listed{without_pictures(settings, model), {}};
    listed.samples.inputs = settings.inputs;
    return listed;
  }
  auto listed =
      settings.from_pictures ? Listed{look_at_pictures(settings, model, needs), {}} : open_list(settings, model, needs, schedule, cache);
  const auto read_later = schedule.sample_inputs();
  for (const auto& sample : listed.samples.list) {
    needs.check(sample);
    check_columns(sample, model, settings.from_pictures ? nullptr : &read_later);
  }
  return listed;
}

std::optional<Samples> open_held_out(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs) {
  if (settings.held_out.subsets.empty()) return std::nullopt;
  auto samples = samples_of(open_pictures(settings.held_out, model, needs), model);
  samples.inputs = settings.inputs;
  for (const auto& sample : samples.list) {
    needs.check(sample);
    check_columns(sample, model);
  }
  return samples;
}

}  // namespace burnish::train
