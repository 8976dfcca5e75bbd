#include "train/samples/open_samples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/input_error.h"
#include "base/text.h"
#include "data/row_sound.h"
#include "train/samples/compute.h"
#include "train/samples/diffsynth_cache.h"
#include "train/samples/sample_list.h"

namespace burnish::train {

namespace {

constexpr double kManyVisits = 1024;

/// The column of reference pictures that the model reads; "" for none, and for models of clips: what they call one is a frame of the clip,
/// which units take from it. Of layers a row may name another one than its first.
std::string reference_column(const models::Model& model) {
  const auto& space = model.latent_space();
  return space.frames_step > 0 && !space.has_layers ? "" : model.names().references.column;
}

/// Rows of layers say by their files how many they have.
void check_no_length(const data::Subset& subset, const models::LatentSpace& space) {
  if (space.has_layers && subset.clips.num_frames > 0)
    config_error("train",
                 "num_frames {} is the length of clips, and rows of this model say by their files how many layers they have; take it out",
                 subset.clips.num_frames);
}

std::unique_ptr<data::Dataset> open_pictures(data::DatasetOptions options, const models::Model& model, const SampleNeeds& needs) {
  for (auto& subset : options.subsets) {
    check_no_length(subset, model.latent_space());
    fit(subset, model.latent_space());
  }
  options.layers = model.latent_space().has_layers;
  options.extra_columns = needs.columns;
  for (const auto& input : model.names().extra_inputs) {
    using Kind = models::ExtraInput::Kind;
    auto& columns = input.kind == Kind::pictures ? options.own_sized_pictures
                    : input.kind == Kind::clip   ? options.further_pictures
                    : input.kind == Kind::file   ? options.extra_files
                                                 : options.extra_columns;
    columns.emplace_back(input.column);
    if (input.square > 0) options.squares[std::string(input.column)] = input.square;
  }
  if (const auto column = reference_column(model); !column.empty()) {
    options.own_sized_pictures.push_back(column);
    if (model.scales_references()) options.whole_pictures.insert(column);
  }
  return std::make_unique<data::Dataset>(options);
}

data::MetadataOrigin absolute(data::MetadataOrigin origin) {
  for (auto* path : {&origin.path, &origin.captions.mask_folder}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  return origin;
}

/// The shapes of the further streams' latents.
void add_streams(SampleInfo& sample, const models::LatentSpace& space) {
  for (const auto& stream : std::span(space.streams).subspan(1)) {
    auto& shape = sample.further_latents[stream.name] = space.shape(stream, sample.extent);
    if (!stream.column.empty() && !has_column(sample, stream.column)) shape.at(1) = 0;
  }
}

Samples samples_of(std::unique_ptr<data::Dataset> pictures, const models::Model& model) {
  Samples samples;
  for (auto row : pictures->rows()) {
    const auto& entry = pictures->entry(row);
    auto extent = pictures->extent(row);
    auto file = std::filesystem::absolute(entry.file).string();
    std::map<std::string, std::string> further;
    for (const auto& [column, path] : entry.further) further[column] = std::filesystem::absolute(path).string();
    std::map<std::string, std::vector<Extent>> extents;
    for (const auto& column : pictures->options().own_sized_pictures) {
      extents[column] = {};
      bool is_reference = column == reference_column(model);
      for (const auto& crop : pictures->picture_crops(row, column)) {
        auto given = data::extent_of(crop.size);
        extents[column].push_back(is_reference ? model.seen_reference(given) : given);
      }
    }
    for (const auto& input : model.names().extra_inputs) {
      if (input.kind != models::ExtraInput::Kind::clip) continue;
      const std::string column(input.column);
      extents[column] = entry.further.contains(column) ? std::vector{input.extent_beside(extent)} : std::vector<Extent>{};
    }
    samples.list.push_back({row, extent, entry.prompt, entry.captions, entry.extra, file, further, model.latent_space().shape(extent),
                            entry.loss_weight, entry.subset, std::move(extents)});
    samples.list.back().pixel_channels = model.latent_space().pixel_channels();
    samples.list.back().trigger_word = pictures->subsets().at(entry.subset).visits.trigger_word;
    add_streams(samples.list.back(), model.latent_space());
  }
  samples.num_variants = pictures->num_variants();
  samples.sets.clear();
  samples.origins.clear();
  for (const auto& subset : pictures->subsets()) samples.sets.push_back(subset.visits);
  for (const auto& origin : pictures->origins()) samples.origins.push_back(absolute(origin));
  samples.pictures = std::move(pictures);
  return samples;
}

/// A column of masks that is misspelled must not look like samples that all count whole.
void check_any_mask(const data::Dataset& pictures) {
  const auto& mask = pictures.options().mask;
  if (mask.from != data::MaskSource::From::column) return;
  bool any = std::ranges::any_of(pictures.rows(), [&](auto row) { return pictures.entry(row).further.contains(mask.column); });
  if (!any)
    data_error("train", "{}: no row names a mask in the column '{}'; name the column with --mask_column, or take masked_loss out",
               pictures.origins().front().path, mask.column);
}

/// Nor must a column of reference pictures look like samples that have none.
void check_any_reference(const data::Dataset& pictures, const std::string& column) {
  if (column.empty()) return;
  bool any = std::ranges::any_of(pictures.rows(), [&](auto row) { return !pictures.entry(row).picture_sizes.at(column).empty(); });
  if (!any)
    data_error("train", "{}: no row names a reference picture in the column '{}'; name some there, or take {} out of extra_inputs",
               pictures.origins().front().path, column, column);
}

Samples look_at_pictures(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs) {
  for (const auto& subset : settings.pictures.subsets) {
    const auto& space = model.latent_space();
    if (subset.size.height > 0) space.check(data::extent_of(subset.size.fixed(), space.first_frames));
  }
  auto pictures = open_pictures(settings.pictures, model, needs);
  check_any_mask(*pictures);
  if (!model.latent_space().has_layers) check_any_reference(*pictures, reference_column(model));
  auto samples = samples_of(std::move(pictures), model);
  samples.inputs = settings.inputs;
  return samples;
}

/// One of each size that is asked for, with a picture of that size in each column that the model reads, visited so often that batches are
/// full: what a plan makes do with.
Samples without_pictures(const DataSettings& settings, const models::Model& model) {
  Samples samples;
  samples.sets.clear();
  for (auto subset : settings.pictures.subsets) {
    fit(subset, model.latent_space());
    data::check_rule(subset.clips);
    const auto& rule = subset.size;
    auto size = data::target_size(rule, rule.buckets ? rule.buckets->resolution : rule.fixed(), "a picture");
    auto extent = data::extent_of(size, std::max(model.latent_space().first_frames, subset.clips.num_frames));
    auto set = samples.sets.size();
    std::map<std::string, std::vector<Extent>> extents;
    if (const auto column = reference_column(model); !column.empty())
      extents[column] = {model.seen_reference({1, extent.height, extent.width})};
    auto columns = nlohmann::json::object();
    for (const auto& input : model.names().extra_inputs) {
      const bool is_picture = input.kind == models::ExtraInput::Kind::pictures;
      const auto beside = input.extent_beside(extent);
      if (input.is_seen()) extents[std::string(input.column)] = {{is_picture ? 1 : extent.frames, beside.height, beside.width}};
      else columns[std::string(input.column)] = input.example;
    }
    samples.list.push_back({.row = static_cast<int64_t>(set),
                            .extent = extent,
                            .captions = {{""}},
                            .columns = std::move(columns),
                            .latent_shape = model.latent_space().shape(extent),
                            .loss_weight = subset.loss_weight,
                            .set = set,
                            .picture_extents = std::move(extents),
                            .pixel_channels = model.latent_space().pixel_channels()});
    add_streams(samples.list.back(), model.latent_space());
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
    if (input != nullptr && input->in_list && samples.has_captions) continue;
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

/// A cache of samples with further pictures is not trained from as if they had none.
void check_pictures_read(const Samples& samples, const models::Model& model, const std::string& folder) {
  for (const auto& sample : samples.list) {
    for (const auto& [column, extents] : sample.picture_extents) {
      bool is_read = column == reference_column(model) || models::find_extra_input(model.names().extra_inputs, column) != nullptr;
      if (!extents.empty() && !is_read)
        config_error("train", "the cache {} was made of samples with reference pictures ({}); give the extra_inputs that it was made with",
                     folder, column);
    }
  }
}

void check_fits(const SampleInfo& sample, const std::string& column) {
  for (const auto& extent : sample.picture_extents.at(column)) {
    if (extent != Extent{1, sample.extent.height, sample.extent.width})
      data_error("train",
                 "row {}: the picture in the column '{}' is cut to {} by {} pixels and the picture that is trained to {} by {}; scale it "
                 "to the picture's size",
                 sample.row, column, extent.width, extent.height, sample.extent.width, sample.extent.height);
  }
}

/// That a sample has what the model reads of it in further columns. Of a list, which may be another program's, it has to have what later
/// units read.
void check_extra_inputs(const SampleInfo& sample, const models::Model& model, const std::vector<std::string>* read_later = nullptr) {
  const auto& streams = model.latent_space().streams;
  for (const auto& input : model.names().extra_inputs) {
    std::string column(input.column);
    bool is_picture = input.kind == models::ExtraInput::Kind::pictures;
    bool is_of_stream = std::ranges::find(streams, column, &models::LatentSpace::Stream::column) != streams.end();
    bool is_frame = is_picture && input.fits_picture && model.latent_space().frames_step > 0;  // left out, it is one of the clip's own
    const bool is_made = read_later != nullptr && !contains(*read_later, column);
    if ((is_of_stream || is_frame || is_made) && !has_column(sample, column)) continue;
    if (!has_column(sample, column))
      data_error("train", "row {} has nothing in the column '{}', which extra_inputs names; fill it in, or leave the row out", sample.row,
                 column);
    const bool is_numbers = input.kind == models::ExtraInput::Kind::file && column != data::kSoundColumn;
    if (is_numbers && !sample.columns.at(column).get<std::string>().ends_with(".safetensors"))
      data_error(
          "train",
          "row {}: the column '{}' names {}, and a safetensors file with one tensor was expected; docs/train.md says how one is made",
          sample.row, column, sample.columns.at(column).get<std::string>());
    if (is_picture && input.fits_picture) check_fits(sample, column);
  }
  const auto column = reference_column(model);
  if (!sample.picture_extents.contains(column)) return;
  if (const auto why = model.names().why_too_many(std::ssize(sample.picture_extents.at(column))); !why.empty())
    data_error("train", "row {} has in the column '{}' {}; take some out", sample.row, column, why);
  if (model.latent_space().has_layers) check_fits(sample, column);
}

/// A cache is trained from with the LoRAs that were merged into its models when it was made.
void check_same_presets(const Listed& listed, const models::Model& model, data::Cache& cache) {
  for (const auto& [value, place] : listed.kept.by_row.begin()->second.front()) check_merged(model, *place.section, cache);
}

/// The sizes of a value that is kept of a sample, without the batch.
std::vector<int64_t> kept_shape(const Listed& listed, const SampleInfo& sample, const std::string& name) {
  return std::get<at::Tensor>(listed.kept.values({sample.row}, {name}).at(name)).sizes().slice(1).vec();
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

/// A cache of another program says nothing of the sizes of reference pictures, which samples of a batch have in common: they are those of
/// their latents.
void find_reference_extents(Listed& listed, const models::Model& model) {
  const std::string name = "latents_of_references";
  const auto column = reference_column(model);
  const auto spatial = model.latent_space().streams.front().spatial;
  for (auto& sample : listed.samples.list) {
    if (column.empty() || !listed.kept.by_row.at(sample.row).front().contains(name)) continue;
    auto& extents = sample.picture_extents[column];
    auto values = listed.kept.values({sample.row}, {name});
    for (const auto& latents_CHW : std::get<pipeline::TensorLists>(values.at(name)).at(0))
      extents.push_back({.height = latents_CHW.size(-2) * spatial, .width = latents_CHW.size(-1) * spatial});
  }
}

/// That the texts which options give are those that the cache was made with.
void check_options_of_cache(const Samples& samples, const pipeline::Schedule& schedule, const std::filesystem::path& folder) {
  const auto made = listed_digests(folder), now = digests_of_options(samples);
  for (const auto& unit : schedule.once.units) {
    for (const auto& name : unit.reads) {
      const auto of_cache = made.find(name);
      if (of_cache != made.end() && now.at(name) != of_cache->second)
        data_error("train", "the cache {} was made with another {} than this run has; give the one that it was made with, or make it again",
                   folder.string(), samples.inputs->find(name)->option);
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
  check_inputs_in_cache(listed.samples, schedule, folder);
  if (is_foreign(folder)) find_reference_extents(listed, model);
  else check_options_of_cache(listed.samples, schedule, folder);
  check_pictures_read(listed.samples, model, folder);
  find_latent_shapes(listed, model, kept);
  return listed;
}

}  // namespace

void fit(data::Subset& subset, const models::LatentSpace& space) {
  subset.size.division = space.side;
  if (space.frames_step == 0 && subset.clips.num_frames > 1)
    config_error("train", "num_frames {} asks for clips, and this model makes pictures; take num_frames out, or name a model of clips",
                 subset.clips.num_frames);
  subset.clips.step = space.has_layers ? 0 : space.frames_step;
  subset.clips.first_frames = space.first_frames;
  data::take_rate_of_model(subset.clips, space.frame_rate);
  subset.caption_files.with_videos = space.frames_step > 0 && !space.has_layers;
  subset.caption_files.with_layers = space.has_layers;
}

void check_shapes(const Listed& listed, const std::map<std::string, std::vector<int64_t>>& expected,
                  const std::vector<std::string>& names) {
  for (const auto& sample : listed.samples.list) {
    for (const auto& [name, value] : listed.kept.values({sample.row}, names)) {
      bool is_moment = name == "latents_mean" || name == "latents_logvar";
      auto shape = expected.find(is_moment ? "latents" : name);
      if (shape == expected.end()) continue;
      auto found = std::get<at::Tensor>(value).sizes().vec();
      auto fits = std::equal(shape->second.begin(), shape->second.end(), found.begin(), found.end(),
                             [](auto want, auto is) { return want < 0 || want == is; });
      if (fits) continue;
      data_error("train",
                 "the {} of row {} in the cache has the shape {}, and this denoiser takes {} (-1: any size); it was made for another model",
                 name, sample.row, found, shape->second);
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
  return !is_foreign(settings.list_folder) && std::ranges::any_of(listed_sets(settings.list_folder), is_so);
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
    check_extra_inputs(sample, model, settings.from_pictures ? nullptr : &read_later);
  }
  return listed;
}

std::optional<Samples> open_held_out(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs) {
  if (settings.held_out.subsets.empty()) return std::nullopt;
  auto samples = samples_of(open_pictures(settings.held_out, model, needs), model);
  samples.inputs = settings.inputs;
  for (const auto& sample : samples.list) {
    needs.check(sample);
    check_extra_inputs(sample, model);
  }
  return samples;
}

}  // namespace burnish::train
