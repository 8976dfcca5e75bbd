// What names the content of each kind of cell of a row: caches keep results by these texts, so none of them may change.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "data/read_row.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "train/samples/inputs.h"

using namespace burnish;

namespace {

/// What is said of cells, by "dataset, row, variant, value".
using Said = std::map<std::string, std::string>;

const Column kRejected{.name = "rejected_image", .is = Column::Is::clip, .fit = Column::Fit::as_target};

Column references(Column::Fit fit) { return {.name = "kontext_images", .fit = fit, .value = kReferences}; }

/// Datasets with rows of every kind.
class Rows {
 public:
  Rows() {
    for (const char* name : {"rgb.png", "rgb.jpg", "rgba.png", "lossy.webp"}) copy("data/", name);
    for (const char* name : {"base30.mp4", "base.gif", "sound.mp4", "sound.wav", "alpha.webm"}) copy("clips/", name);
    for (int i = 0; i < 4; ++i) data::write_png(scratch_ / fmt::format("layer{}.png", i), at::full({40, 56, 4}, 50 * i + 9, at::kByte));
    data::write_png(scratch_ / "mask.png", at::arange(19 * 26, at::kInt).remainder(251).to(at::kByte).view({19, 26, 1}));
    data::write_png(scratch_ / "layer_mask.png", at::full({40, 56, 1}, 90, at::kByte));
    io::save_safetensors(scratch_ / "numbers.safetensors", {{"x", at::arange(5, at::kFloat)}});
  }

  Said said() {
    Said all;
    say_pictures(all);
    say_whole_references(all);
    say_clips("clips", mask_column("mask"), all);
    say_clips("clips by alpha", opacity_column(), all);
    say_layers(all);
    return all;
  }

 private:
  void copy(const std::string& folder, const std::string& name) { scratch_.write(name, test::content(test::golden_path(folder + name))); }
  data::DatasetOptions options(const std::string& rows) {
    data::Subset subset{.base_path = scratch_.path(), .metadata_path = scratch_.write("rows.json", "[" + rows + "]").string()};
    subset.size = {.height = 32, .width = 48, .max_pixels = 1200, .division = 8};
    return {.subsets = {subset}};
  }

  void say_pictures(Said& all) {
    auto o = options(R"({"image": "rgb.png", "prompt": "a", "mask": "mask.png", "kontext_images": ["rgb.jpg", "lossy.webp"],
"rejected_image": "rgb.png", "controlnet_image": "rgb.jpg", "animate_face_video": "lossy.webp", "motion_bucket_id": 70,
"camera_control_direction": "Left", "eligen_entity_prompts": ["x", "numbers.safetensors"], "infinityou_id_image": "numbers.safetensors"})");
    o.subsets[0].augmentation = {.random_crop = true, .random_flip = true, .num_variants = 3};
    o.columns = {references(Column::Fit::own_size), kRejected, mask_column("mask")};
    for (const char* name : {"motion_bucket_id", "camera_control_direction", "eligen_entity_prompts", "infinityou_id_image",
                             "animate_face_video", "controlnet_image"})
      o.columns.push_back(*find_column(models::extra_inputs(), name));
    say("pictures", o, all);
  }

  void say_whole_references(Said& all) {
    auto o = options(R"({"image": "rgba.png", "prompt": "a", "kontext_images": ["rgb.jpg", "lossy.webp"]})");
    o.columns = {references(Column::Fit::whole), opacity_column()};
    say("whole references", o, all);
  }

  void say_clips(const std::string& name, const Column& mask, Said& all) {
    auto o = options(R"({"video": "base30.mp4", "prompt": "a", "mask": "base.gif", "vace_video": "base.gif"},
{"video": "base.gif", "prompt": "b", "mask": "base.gif", "vace_video": "base30.mp4", "input_audio": "sound.wav"},
{"image": "lossy.webp", "prompt": "c", "vace_video": "lossy.webp"},
{"video": "sound.mp4", "prompt": "d", "vace_video": "base30.mp4"})");
    o.subsets[0].clips = {.extraction = data::ClipRule::Extraction::chunks, .num_frames = 5, .rate = {10, 1}, .step = 4};
    o.subsets[0].augmentation = {.random_flip = true, .num_variants = 2};
    o.columns = {*find_column(models::extra_inputs(), "input_audio"), *find_column(models::extra_inputs(), "vace_video"), mask};
    o.skip_bad_samples = true;
    say(name, o, all);
  }

  void say_layers(Said& all) {
    auto o = options(R"({"image": ["layer0.png", "layer1.png", "layer2.png"], "prompt": "a", "mask": "layer_mask.png",
"rejected_image": ["layer2.png", "layer1.png", "layer0.png"], "layer_input_image": "layer3.png"})");
    o.columns = {{.name = "image", .is = Column::Is::layers, .fit = Column::Fit::target}, references(Column::Fit::first_frame), kRejected};
    o.columns[1].name = "layer_input_image";
    o.columns.push_back(mask_column("mask"));
    say("layers", o, all);
    o.columns.back() = opacity_column();
    say("layers by alpha", o, all);
  }

  /// A sample as runs have it, with the cells that its row has.
  static train::Sample sample_of(const data::Dataset& pictures, int64_t row) {
    train::Sample sample{.number = row, .extent = pictures.extent(row), .row = pictures.row(row)};
    sample.latent_shape = {4, sample.extent.height / 8, sample.extent.width / 8};
    if (sample.extent.frames > 1) sample.latent_shape.insert(sample.latent_shape.begin() + 1, 1 + (sample.extent.frames - 1) / 4);
    return sample;
  }

  void say(const std::string& name, const data::DatasetOptions& o, Said& all) {
    train::Samples samples;
    samples.pictures = std::make_unique<data::Dataset>(o);
    samples.columns = samples.pictures->options().columns;
    for (auto row : samples.pictures->rows()) samples.list.push_back(sample_of(*samples.pictures, row));
    for (const auto& sample : samples.list) {
      data::RowHashes hashes{{"", "hash of the picture"}};
      for (const auto& [column, file] : sample.row.further) hashes[column] = "hash of " + column;
      for (train::Pick pick{sample.number}; pick.variant < data::num_variants(*samples.pictures); ++pick.variant) {
        for (const auto& input : table_.rows()) {
          if (!has(sample, samples, input.name)) continue;
          auto text = input.content(samples, pick, hashes);
          for (auto at = text.find(scratch_.path()); at != text.npos; at = text.find(scratch_.path()))
            text.replace(at, scratch_.path().size(), "FOLDER");
          all[fmt::format("{}, row {}, variant {}, {}", name, sample.number, pick.variant, input.name)] = text;
        }
      }
    }
  }

  /// Whether the sample has a value, which is one of every sample or one of its cells.
  bool has(const train::Sample& sample, const train::Samples& samples, const std::string& name) const {
    if (name == kReferences) return find_read_as(samples.columns, name) != nullptr;
    if (find_column(models::extra_inputs(), name) == nullptr && name != kRejected.name) return true;
    return sample.row.further.contains(name) || sample.row.cells.contains(name);
  }

  test::Scratch scratch_;
  train::InputTable table_{models::extra_inputs(), {kRejected.name}, {}, {}};
};

}  // namespace

TEST(Contents, OfRowsOfEveryKindAreNamedAsCachesHaveThem) {
  Rows rows;
  const auto expected = io::read_json(test::golden_path("contents.json")).get<Said>();
  const auto said = rows.said();
  EXPECT_EQ(said.size(), expected.size());
  for (const auto& [cell, content] : expected) EXPECT_EQ(said.at(cell), content) << cell;
}
