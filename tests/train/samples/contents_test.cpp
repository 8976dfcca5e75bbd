// What names the content of each kind of cell of a row: caches keep results by these texts, so none of them may change.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <functional>

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
  using Say = std::function<std::string(const train::Input&, const train::View&)>;

  explicit Rows(Say say) : say_(std::move(say)) {
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
    for (auto from : {data::MaskSource::From::column, data::MaskSource::From::alpha}) say_clips(from, all);
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
    o.mask = {data::MaskSource::From::column, "mask"};
    o.columns = {references(Column::Fit::own_size), kRejected};
    for (const char* name : {"motion_bucket_id", "camera_control_direction", "eligen_entity_prompts", "infinityou_id_image",
                             "animate_face_video", "controlnet_image"})
      o.columns.push_back(*find_column(models::extra_inputs(), name));
    say("pictures", o, all);
  }

  void say_whole_references(Said& all) {
    auto o = options(R"({"image": "rgba.png", "prompt": "a", "kontext_images": ["rgb.jpg", "lossy.webp"]})");
    o.mask = {data::MaskSource::From::alpha, ""};
    o.columns = {references(Column::Fit::whole)};
    say("whole references", o, all);
  }

  void say_clips(data::MaskSource::From mask, Said& all) {
    auto o = options(R"({"video": "base30.mp4", "prompt": "a", "mask": "base.gif", "vace_video": "base.gif"},
{"video": "base.gif", "prompt": "b", "mask": "base.gif", "vace_video": "base30.mp4", "input_audio": "sound.wav"},
{"image": "lossy.webp", "prompt": "c", "vace_video": "lossy.webp"},
{"video": "sound.mp4", "prompt": "d", "vace_video": "base30.mp4"})");
    o.subsets[0].clips = {.extraction = data::ClipRule::Extraction::chunks, .num_frames = 5, .rate = {10, 1}, .step = 4};
    o.subsets[0].augmentation = {.random_flip = true, .num_variants = 2};
    o.mask = {mask, mask == data::MaskSource::From::column ? "mask" : ""};
    o.columns = {*find_column(models::extra_inputs(), "input_audio"), *find_column(models::extra_inputs(), "vace_video")};
    o.skip_bad_samples = true;
    say(mask == data::MaskSource::From::column ? "clips" : "clips by alpha", o, all);
  }

  void say_layers(Said& all) {
    auto o = options(R"({"image": ["layer0.png", "layer1.png", "layer2.png"], "prompt": "a", "mask": "layer_mask.png",
"rejected_image": ["layer2.png", "layer1.png", "layer0.png"], "layer_input_image": "layer3.png"})");
    o.columns = {{.name = "image", .is = Column::Is::layers, .fit = Column::Fit::target}, references(Column::Fit::first_frame), kRejected};
    o.columns[1].name = "layer_input_image";
    o.mask = {data::MaskSource::From::column, "mask"};
    say("layers", o, all);
    o.mask = {data::MaskSource::From::alpha, ""};
    say("layers by alpha", o, all);
  }

  /// A sample as runs have it, with the cells that its row has.
  static train::SampleInfo sample_of(const data::Dataset& pictures, int64_t row) {
    const auto& cells = pictures.row(row).cells;
    train::SampleInfo sample{.row = row, .extent = pictures.extent(row), .prompt = pictures.row(row).prompt, .columns = cells};
    sample.latent_shape = {4, sample.extent.height / 8, sample.extent.width / 8};
    if (sample.extent.frames > 1) sample.latent_shape.insert(sample.latent_shape.begin() + 1, 1 + (sample.extent.frames - 1) / 4);
    return sample;
  }

  void say(const std::string& name, const data::DatasetOptions& o, Said& all) {
    const data::Dataset pictures(o);
    for (auto row : pictures.rows()) {
      const auto sample = sample_of(pictures, row);
      train::View view{&sample, &pictures, 0, false, "hash of the picture"};
      for (const auto& [column, file] : pictures.row(row).further) view.further_hashes[column] = "hash of " + column;
      for (; view.variant < data::num_variants(pictures); ++view.variant) {
        for (const auto& input : table_.rows()) {
          if (!has(sample, pictures, input.name)) continue;
          auto text = say_(input, view);
          for (auto at = text.find(scratch_.path()); at != text.npos; at = text.find(scratch_.path()))
            text.replace(at, scratch_.path().size(), "FOLDER");
          all[fmt::format("{}, row {}, variant {}, {}", name, row, view.variant, input.name)] = text;
        }
      }
    }
  }

  /// Whether the sample has a value, which is one of every sample or one of its cells.
  bool has(const train::SampleInfo& sample, const data::Dataset& pictures, const std::string& name) const {
    if (name == kReferences) return find_read_as(pictures.options().columns, name) != nullptr;
    if (find_column(models::extra_inputs(), name) == nullptr && name != kRejected.name) return true;
    return pictures.row(sample.row).further.contains(name) || sample.columns.contains(name);
  }

  Say say_;
  test::Scratch scratch_;
  train::InputTable table_{models::extra_inputs(), {kRejected.name}, {}, {}};
};

}  // namespace

TEST(Contents, OfRowsOfEveryKindAreNamedAsCachesHaveThem) {
  Rows rows([](const train::Input& input, const train::View& view) { return input.content(view); });
  const auto expected = io::read_json(test::golden_path("contents.json")).get<Said>();
  const auto said = rows.said();
  EXPECT_EQ(said.size(), expected.size());
  for (const auto& [cell, content] : expected) EXPECT_EQ(said.at(cell), content) << cell;
}
