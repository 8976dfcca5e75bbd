#include "train/samples/dataset_choice.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/number.h"
#include "base/text.h"
#include "config/everyday_words.h"
#include "config/problems.h"
#include "data/load_metadata.h"
#include "data/spelling.h"
#include "hub/addressed.h"
#include "hub/dataset.h"
#include "hub/settings.h"
#include "io/files.h"

namespace burnish::train {

namespace {

constexpr int64_t kMostFrames = 100000;
constexpr double kLeastFrameRate = 0.1, kMostFrameRate = 1000;

const std::map<std::string, data::Media> kMedia{
    {"all", data::Media::all}, {"pictures", data::Media::pictures}, {"clips", data::Media::clips}};

/// "1024", "768,1024" and "768x1024": a square's side, or width and height.
data::Size parse_resolution(const std::string& text) {
  auto comma = std::min(text.find_first_of(",x"), text.size());
  auto number = [&](std::string_view part) {
    const auto value = parse_number<int64_t>(trim(part));
    if (!value || *value < 1 || *value > kMostPixelsASide)
      config_error("train", "the resolution '{}' is no side like 1024, nor width and height like 768,1024", text);
    return *value;
  };
  auto width = number(std::string_view(text).substr(0, comma));
  return {comma < text.size() ? number(std::string_view(text).substr(comma + 1)) : width, width};
}

data::SizeRule size_rule(const DatasetChoice& o, const std::string& resolution) {
  auto rule = o.subset.size;
  rule.division = 1;  // the model says another
  if (resolution.empty()) return rule;
  const auto size = parse_resolution(resolution);
  if (!o.enable_bucket) {
    rule.height = size.height;
    rule.width = size.width;
    return rule;
  }
  using Kind = data::BucketRule::Kind;
  rule.buckets = o.buckets;
  rule.buckets->kind = o.bucket_rule == "kohya" ? Kind::kohya : Kind::onetrainer;
  rule.buckets->resolution = size;
  rule.buckets->upscale = !o.bucket_no_upscale;
  return rule;
}

void bucket_fields(config::Fields& f, DatasetChoice& o) {
  const auto buckets = [&o] { return o.enable_bucket; };
  const auto has_limits = [&o] { return o.enable_bucket && o.bucket_rule == "kohya"; };
  f("enable_bucket", o.enable_bucket, "train each picture at the size nearest its shape out of a list of sizes of the resolution's area")
      .label("Keep the pictures' shapes")
      .level(config::Level::first_run);
  f("bucket_rule", o.bucket_rule, "kohya: the list of sd-scripts; onetrainer: OneTrainer's")
      .one_of({"kohya", "onetrainer"})
      .counts_when("enable_bucket", buckets);
  f("bucket_no_upscale", o.bucket_no_upscale,
    "false scales pictures up that are smaller than their bucket; else they keep their size, rounded down to steps")
      .counts_when("enable_bucket", buckets);
  f("min_bucket_reso", o.buckets.least, "shortest side of a bucket of kohya")
      .at_most(kMostPixelsASide)
      .in("pixels")
      .counts_when("enable_bucket with bucket_rule kohya", has_limits);
  f("max_bucket_reso", o.buckets.most, "longest side of a bucket of kohya")
      .at_most(kMostPixelsASide)
      .in("pixels")
      .counts_when("enable_bucket with bucket_rule kohya", has_limits);
  f("bucket_reso_steps", o.buckets.step, "sides of buckets are multiples of this")
      .at_most(kMostPixelsASide)
      .in("pixels")
      .counts_when("enable_bucket", buckets);
}

void size_fields(config::Fields& f, DatasetChoice& o) {
  auto& size = o.subset.size;
  const auto is_fixed = [&o] { return o.subset.size.height > 0 || !o.resolution.empty(); };
  f("height", size.height, "fixed height; with width, else each picture keeps its shape")
      .at_least(0)
      .at_most(kMostPixelsASide)
      .in("pixels")
      .repeated();
  f("width", size.width, "fixed width").at_least(0).at_most(kMostPixelsASide).in("pixels").repeated();
  f("max_pixels", size.max_pixels, "area above which a picture is scaled down")
      .label("Largest area")
      .at_least(1)
      .at_most(kMostPixelsASide * kMostPixelsASide)
      .in("pixels")
      .counts_when("pictures that keep their shape, without height, width and resolution", [is_fixed] { return !is_fixed(); })
      .repeated();
  f.numbers("resolution", o.resolution,
            "SIDE or WIDTH,HEIGHT in place of height, width and max_pixels: the size, or with enable_bucket the area; may be given several "
            "times")
      .label("Picture size")
      .level(config::Level::first_run)
      .called(config::kSize);
  f("multi_resolution", o.multi_resolution,
    "of several resolutions: all, each picture at each of them in every epoch, or one, each at one of them in turn")
      .one_of({"all", "one"})
      .counts_when("several values of resolution", [&o] { return o.resolution.size() > 1; });
  bucket_fields(f, o);
}

void clip_fields(config::Fields& f, DatasetChoice& o) {
  auto& clips = o.subset.clips;
  f("num_frames", clips.num_frames, "frames of a clip, where the model makes clips; a shorter clip has fewer; 0: 81")
      .at_least(0)
      .at_most(kMostFrames)
      .repeated();
  f("frame_rate", o.frame_rate,
    "frames a second that are taken of a clip, by the times at which they are shown; 0: as many as the model was made with, and every "
    "frame of a slower clip")
      .at_least(0)
      .at_most(kMostFrameRate);
  f("frame_extraction", o.frame_extraction,
    "which frames of a clip are trained: those at its head or in its middle, the whole clip, chunks one behind the other, slide (a clip "
    "every frame_stride frames), or uniform (frame_sample clips, spread evenly)")
      .one_of({"head", "middle", "whole", "chunks", "slide", "uniform"});
  f("frame_stride", clips.stride, "of slide: frames from one clip to the next")
      .at_least(1)
      .at_most(kMostFrames)
      .counts_when("frame_extraction slide", [&o] { return o.frame_extraction == "slide"; });
  f("frame_sample", clips.num_windows, "of uniform: clips that are taken of each file")
      .at_least(1)
      .at_most(kMostFrames)
      .counts_when("frame_extraction uniform", [&o] { return o.frame_extraction == "uniform"; });
}

constexpr double kWholeTurn = 360, kMostAdded = 10;

/// A pair of options for each way to change pictures.
void augmentation_fields(config::Fields& f, data::Augmentation& a) {
  f("random_crop", a.random_crop, "cut pictures anywhere, not at the centre").label("Random crops").of_visits();
  f("random_flip", a.random_flip, "mirror every other variant of a picture left to right", {"flip_aug"})
      .label("Random mirroring")
      .of_visits();
  f("fixed_flip", a.fixed_flip, "mirror every picture left to right").of_visits().level(config::Level::all);
  const auto pair = [&](const std::string& what, data::Amount& amount, double least, double most, const std::string& random,
                        const std::string& fixed) {
    f("random_" + what, amount.random, random).at_least(0).at_most(most).of_visits();
    f("fixed_" + what, amount.fixed, fixed).at_least(least).at_most(most).of_visits().level(config::Level::all);
  };
  pair("rotate", a.rotate, -kWholeTurn, kWholeTurn, "turn each variant by up to so many degrees either way; corners become black",
       "turn every picture so many degrees to the left");
  for (const auto& [what, amount, of] : {std::tuple{"brightness", &a.brightness, "colours"},
                                         {"contrast", &a.contrast, "colours' distance from the picture's mean gray"},
                                         {"saturation", &a.saturation, "colours' distance from gray"}})
    pair(what, *amount, -1, kMostAdded, fmt::format("{} of each variant times 1 and up to so much more or less", of),
         fmt::format("{} of every picture times 1 and so much", of));
  pair("hue", a.hue, -1, 1, "turn the hues of each variant by up to so many half circles either way",
       "turn the hues of every picture by so many half circles");
}

void caption_fields(config::Fields& f, DatasetChoice& o) {
  auto& files = o.subset.caption_files;
  auto& rule = o.subset.visits.captions;
  f("caption_extension", files.endings,
    "comma list of endings of caption files, the first that is there counts; with enable_wildcard one is drawn, ENDING=WEIGHT times as "
    "often");
  f("class_tokens", files.class_tokens, "caption of samples that have none", {"default_caption"}).label("Caption where there is none");
  f("trigger_word", o.subset.visits.trigger_word,
    "a word that prompts are to call what is learned by, such as \"zwx fox\": takes the place of [trigger] in captions, and stands before "
    "every caption that does not hold it; not for class sets")
      .called(config::kTrigger);
  f("caption_prefix", rule.prefix, "before every caption").label("Text before captions");
  f("caption_suffix", rule.suffix, "behind every caption").label("Text after captions");
  f("caption_dropout", rule.dropout, "share of visits under the empty caption", {"caption_dropout_rate"})
      .label("Share of empty captions")
      .of_visits();
  f("enable_wildcard", rule.wildcards,
    "draw at each visit one of a picture's captions, which are lines of its file too, and one of a, b and c where it says {a|b|c}")
      .of_visits();
}

/// Options of captions that are lists of tags.
void tag_fields(config::Fields& f, DatasetChoice& o) {
  auto& rule = o.subset.visits.captions;
  const auto of_changed_tags = [&rule](config::Row row) {
    row.of_visits().counts_when("shuffle_caption or caption_tag_dropout_rate", [&rule] { return rule.shuffle || rule.tag_dropout > 0; });
  };
  f("shuffle_caption", rule.shuffle, "put the tags of a caption in another order at each visit").label("Shuffle tags").of_visits();
  f("caption_tag_dropout_rate", rule.tag_dropout, "share of a caption's tags that are left out at each visit").of_visits();
  of_changed_tags(f("keep_tokens", rule.keep_tokens, "tags at the start of a caption that are neither shuffled nor left out")
                      .label("Tags that stay in front"));
  of_changed_tags(f("keep_tokens_separator", rule.keep_separator,
                    "what stands before it in a caption is neither shuffled nor left out, and what stands behind a second one; ||| say"));
  of_changed_tags(f("caption_separator", rule.separator, "what stands between the tags of a caption"));
  f.path("mask_folder", o.subset.caption_files.mask_folder,
         "folder of masks, each with the name of its picture and any ending, for masked_loss column; samples without one count whole",
         {"mask_path", "conditioning_data_dir"})
      .label("Folder of masks");
  of_changed_tags(f("secondary_separator", rule.secondary_separator,
                    "tags joined by it are shuffled and left out as one; caption_separator takes its place"));
}

/// A way to change pictures is drawn or fixed.
void check_augmentation(const data::Augmentation& a) {
  const auto refuse = [](const std::string& what) {
    config_error("train", "random_{} draws what fixed_{} says once and for all; take one of them out", what, what);
  };
  if (a.random_flip && a.fixed_flip) refuse("flip");
  for (const auto& [what, amount] : {std::pair{"rotate", a.rotate},
                                     {"brightness", a.brightness},
                                     {"contrast", a.contrast},
                                     {"saturation", a.saturation},
                                     {"hue", a.hue}})
    if (amount.random != 0 && amount.fixed != 0) refuse(what);
}

/// Keys of a dataset_config beside those of a run.
void fields_of_one(config::Fields& f, DatasetChoice& o) {
  auto& visits = o.subset.visits;
  fields(f, o);
  f.path("dataset_base_path", o.subset.base_path, "folder that file names start from, or of pictures", {"image_dir"});
  f.path("dataset_metadata_path", o.subset.metadata_path, "metadata", {"metadata_file"}).called(config::kData);
  f("media", o.media, "which files are its samples, for a folder that a further dataset names: all, its pictures alone, or its clips alone")
      .one_of({"all", "pictures", "clips"});
  f("num_repeats", visits.num_repeats, "visits of each sample in an epoch").at_most(kMostRepeats);
  f("loss_weight", o.subset.loss_weight, "factor on the loss of its samples").at_least(0);
  f("is_reg", visits.of_class_set, "a class set");
  f("slider_strength", visits.slider_strength,
    "strength of the adapter at which its samples are learned: 1, and -1 for those of a slider's other end");
  f.no_effect("cache_info", true, "metadata is read at once");
  f.refused("batch_size", "all datasets of a run share one; give --batch_size");
  f.refused("caption_dropout_every_n_epochs", "give a share of visits with caption_dropout_rate");
  for (const char* name : {"color_aug", "face_crop_aug_range"})
    f.refused(name, "give random_saturation and random_brightness for colours; faces are not looked for");
  for (const char* name : {"token_warmup_min", "token_warmup_step"}) f.refused(name, "leave tags out with caption_tag_dropout_rate");
  f.refused("network_multiplier", "weigh the dataset's loss with loss_weight");
}

/// A path as what is there is spelled, where another system wrote it; of a dataset at an address where its files lie, once they are here.
std::string as_there(const std::string& path) {
  if (const auto dataset = hub::addressed_dataset(path))
    return hub::fetch_addressed(*dataset, hub::settings_from_environment(), hub::dataset_room_from_environment()).string();
  if (const auto address = hub::dataset_address(path)) return hub::fetch_dataset(*address, hub::settings_from_environment()).string();
  auto found = path.empty() ? std::nullopt : data::SpelledFiles().find("", path);
  return found ? found->string() : path;
}

/// A class set shows what a model knows already: what names the subject of the run is not for it.
void as_class_set(data::Subset& subset, const data::Subset& run) {
  auto& files = subset.caption_files;
  subset.visits.trigger_word.clear();
  if (files.class_tokens == run.caption_files.class_tokens) files.class_tokens.clear();
  if (files.mask_folder == run.caption_files.mask_folder) files.mask_folder.clear();
}

}  // namespace

void fields(config::Fields& f, DatasetChoice& o) {
  const auto first = f.list().size();
  f.group("Pictures and clips");
  size_fields(f, o);
  augmentation_fields(f, o.subset.augmentation);
  clip_fields(f, o);
  f.group("Captions and masks");
  caption_fields(f, o);
  tag_fields(f, o);
  for (size_t i = first; i < f.list().size(); ++i) f.row(f.list()[i].name).of_dataset();
}

void check(const DatasetChoice& o) {
  const auto& size = o.subset.size;
  const auto& visits = o.subset.visits;
  auto listed = o;
  config::Fields all;
  fields_of_one(all, listed);
  config::Problems problems(all);
  problems.check_values();
  problems.refuse("train");
  if ((size.height > 0) != (size.width > 0)) config_error("train", "give both height and width, or neither");
  if (size.height > 0 && !o.resolution.empty())
    config_error("train", "height and width give one size and resolution another; take one of them out");
  if (o.enable_bucket && o.resolution.empty())
    config_error("train", "enable_bucket makes sizes of one area; name it with resolution, 1024 say");
  for (const auto& resolution : o.resolution) parse_resolution(resolution);
  if (o.frame_rate > 0 && o.frame_rate < kLeastFrameRate)
    config_error("train", "frame_rate must be at least {}, or 0 for the model's, and is {}", kLeastFrameRate, o.frame_rate);
  if (!(visits.num_repeats > 0)) config_error("train", "num_repeats must be more than 0, not {}", visits.num_repeats);
  if (visits.of_class_set && visits.num_repeats != 1)
    config_error("train", "a class set has as many visits as all other samples, and num_repeats {} asks for others; take it out",
                 visits.num_repeats);
  if (!std::isfinite(visits.slider_strength) || visits.slider_strength == 0)
    config_error("train", "slider_strength must be a number other than 0, where nothing would be learned, and is {}",
                 visits.slider_strength);
  check_augmentation(o.subset.augmentation);
  data::check(visits.captions);
}

std::vector<DatasetChoice> read_dataset_config(const std::string& path, const DatasetChoice& run) {
  std::deque<DatasetChoice> read;
  config::read_toml_items(path, "datasets", "subsets", [&] {
    config::Fields f;
    fields_of_one(f, read.emplace_back(run));
    return f;
  });
  for (auto& one : read) {
    auto& subset = one.subset;
    if (subset.visits.of_class_set) as_class_set(subset, run.subset);
    if (subset.metadata_path.empty()) subset.metadata_path = subset.base_path;
    if (subset.metadata_path.empty())
      config_error("train", "{}: a dataset names no data; give a folder in image_dir, or a metadata file in metadata_file", path);
    check(one);
  }
  if (read.empty()) config_error("train", "{} holds no [[datasets]]", path);
  if (std::ranges::all_of(read, [](const auto& one) { return one.subset.visits.of_class_set; }))
    config_error("train", "{} holds class sets (is_reg) alone; name a dataset that is to be learned", path);
  return {read.begin(), read.end()};
}

data::ClipRule clip_rule(const DatasetChoice& o) {
  using Extraction = data::ClipRule::Extraction;
  static const std::map<std::string, Extraction> kinds{{"head", Extraction::head},   {"middle", Extraction::middle},
                                                       {"whole", Extraction::whole}, {"chunks", Extraction::chunks},
                                                       {"slide", Extraction::slide}, {"uniform", Extraction::uniform}};
  auto rule = o.subset.clips;
  rule.extraction = kinds.at(o.frame_extraction);
  rule.rate = data::as_fraction(o.frame_rate);
  return rule;
}

std::vector<data::Subset> subsets_of(const DatasetChoice& o, int64_t cache_variants) {
  auto subset = o.subset;
  subset.metadata_path = as_there(o.subset.metadata_path);
  subset.base_path = base_of(subset.metadata_path, as_there(o.subset.base_path));
  auto mirrored_alone = subset.augmentation;
  mirrored_alone.random_flip = false;
  const auto variants = cache_variants > 0 ? cache_variants : mirrored_alone.varies() ? 4 : 2;
  subset.augmentation.num_variants = subset.augmentation.varies() ? variants : 1;
  subset.caption_files.mask_folder = as_there(o.subset.caption_files.mask_folder);
  subset.caption_files.trigger_word = subset.visits.trigger_word;
  subset.caption_files.media = kMedia.at(o.media);
  subset.clips = clip_rule(o);
  const auto resolutions = o.resolution.empty() ? std::vector<std::string>{""} : o.resolution;
  if (o.multi_resolution == "one" && !subset.visits.of_class_set) subset.visits.num_repeats /= static_cast<double>(resolutions.size());
  std::vector<data::Subset> subsets(resolutions.size(), subset);
  for (size_t i = 0; i < subsets.size(); ++i) subsets[i].size = size_rule(o, resolutions[i]);
  return subsets;
}

std::string base_of(const std::string& metadata_path, const std::string& base_path) {
  if (!base_path.empty()) return base_path;
  const auto metadata = data::metadata_in(metadata_path);
  return (io::is_folder(metadata) ? metadata : metadata.parent_path()).string();
}

}  // namespace burnish::train
