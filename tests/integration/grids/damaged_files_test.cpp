// Damaged weights and settings of small models and adapters: whatever is wrong with one tensor or one value, opening ends in a sentence.
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "loras/merged.h"
#include "models/registry.h"
#include "tests/integration/families/flux_extras.h"
#include "tests/places.h"
#include "tests/scratch.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::models;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const fs::path kSource = test::kCheckout;

/// What is damaged: a folder of one of the models in tests/golden, or "" for the files beside its folders; or what it is given beside them,
/// a file or folder of tests/golden that is a component of that name, or an adapter.
struct Part {
  std::string model, folder;
  bool references = false;  ///< whether it is opened to read reference pictures
  const char* given = nullptr;
  /// The folder of tests/golden whose tokenizer and processor, which know pictures, stand in the place of its own.
  const char* seen_with = nullptr;
};

constexpr const char *kAdapter = "adapter", *kStep1x = "step1x";

/// A model in a folder of its own, of which a test damages a file at a time, and opens it after every damage, or every `stride`-th.
class Damaged : public testing::TestWithParam<Part> {
 protected:
  Damaged() {
    fs::copy(kSource / "tests/golden" / GetParam().model / "model", model(), fs::copy_options::recursive);
    for (const char* name : {"tokenizer", "processor"}) {
      if (GetParam().seen_with == nullptr) break;
      fs::remove_all(model() / name);
      fs::copy(kSource / "tests/golden" / GetParam().seen_with / name, model() / name, fs::copy_options::recursive);
    }
    if (!is_given()) return;
    auto given = kSource / "tests/golden" / GetParam().given, folder = model() / GetParam().folder;
    fs::create_directory(folder);
    if (given == test::kFaces / "controlnet") {
      test::copy_face_control_net(folder);
      return;
    }
    if (fs::is_directory(given)) {
      fs::copy(given, folder);
      return;
    }
    auto source = io::TensorSource::open({given});
    io::NamedTensors tensors;
    for (const auto& name : source.names()) tensors.emplace_back(name, source.tensor(name));
    io::save_safetensors(folder / "given.safetensors", tensors, source.metadata());
  }
  bool is_given() const { return GetParam().given != nullptr; }
  bool is_adapter() const { return GetParam().folder == kAdapter; }
  fs::path model() const { return scratch_ / "model"; }
  /// A file by itself, or a folder that is a component or an adapter of peft.
  fs::path given() const {
    auto folder = model() / GetParam().folder;
    return fs::exists(folder / "given.safetensors") ? folder / "given.safetensors" : folder;
  }

  /// Merges the adapter, at a strength, into the components that it is of.
  void merge_adapter(Model& opened) const {
    loras::merge(opened, {{given().string(), 0.6}});
    for (const auto& [component, names] : opened.names().components) {
      if (opened.components().holding(component).merge) opened.components().load(component);
    }
  }

  void SetUp() override { whole_ = open_model_files({names(), "", ""}); }

  /// What --model is given.
  std::vector<std::string> names() const {
    // Which has a transformer and texts of its own.
    if (GetParam().folder == kStep1x) return {given(), kSource / "tests/golden/step1x/step1x.safetensors", model() / "vae"};
    if (is_given() && !is_adapter()) return {model(), given()};
    return {model()};
  }

  /// The files as they are now: what was opened before any damage, with the damaged component opened anew.
  ModelFiles files() const {
    auto files = whole_;
    if (is_adapter()) return files;
    auto now = open_model_files({GetParam().folder.empty() ? names() : std::vector<std::string>{given()}, "", ""});
    if (GetParam().folder.empty()) {
      now.tokenizers = files.tokenizers;
      return now;
    }
    auto& entry = *std::ranges::find(files.entries, given().string(), &ModelEntry::label);
    now.entries.at(0).component = entry.component;
    entry = std::move(now.entries[0]);
    return files;
  }

  /// What comes of opening the model and comparing the part's weights with what they must be: "" or the sentence. With `load` they are
  /// read.
  std::string outcome(bool load = false) const {
    ModelOptions options;
    bool has_tokenizer = fs::exists(model() / "tokenizer") || fs::exists(given() / "tokenizer.json");
    for (const char* other : {"text_encoder", "processor"}) has_tokenizer |= fs::exists(model() / other / "tokenizer.json");
    if (!has_tokenizer) options.tokenizer_path = (kSource / "assets/tiny-flux/tokenizer").string();
    if (GetParam().model == "pipeline") options.tokenizer_2_path = (kSource / "assets/tiny-flux/tokenizer_2").string();
    options.dtype = at::kFloat;
    options.references = GetParam().references;
    if (!GetParam().folder.empty() && files_ending(".safetensors").empty()) options.init = "random";
    try {
      auto opened = open_model(files(), options);
      if (is_adapter()) return merge_adapter(*opened), "";
      const std::string& folder = GetParam().folder;
      const std::string component = folder == "transformer"                 ? "dit"
                                    : folder.empty()                        ? "vae"
                                    : folder == kStep1x || folder == "mllm" ? "text_encoder"
                                                                            : folder;
      std::vector<std::string> components{component};
      if (component == "text_encoder" && options.references) components.emplace_back("image_encoder");
      for (const auto& name : components) {
        opened->components().check(name);
        if (load) opened->components().load(name);
      }
      return "";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Exit::config || error.code() == Exit::data) << error.what();
      return error.what();
    } catch (const std::exception& other) {
      ADD_FAILURE() << "not a burnish::Error: " << other.what();
      return "not a sentence";
    }
  }

  std::vector<fs::path> files_ending(const std::string& ending) const {
    std::vector<fs::path> files;
    // A vocabulary has a value for every word, and tests of its own.
    auto add = [&](const fs::path& path) {
      if (path.string().ends_with(ending) && !path.filename().string().starts_with("tokenizer")) files.push_back(path);
    };
    if (!GetParam().folder.empty()) {
      for (const auto& entry : fs::directory_iterator(model() / GetParam().folder)) add(entry.path());
    } else {
      for (const char* name :
           {"model_index.json", "modular_model_index.json", "scheduler/scheduler_config.json", "processor/preprocessor_config.json"}) {
        if (fs::exists(model() / name)) add(model() / name);
      }
    }
    return files;
  }

  void damage_tensors(int64_t stride);
  void damage_dtypes(int64_t stride);
  void damage_settings(int64_t stride);

  test::Scratch scratch_;
  ModelFiles whole_;  ///< which holds the tokenizers, too, that all openings share
};

class EveryDamage : public Damaged {};

/// A denoiser without weights, of which config.json alone says the sizes.
class DamagedPlan : public Damaged {
 protected:
  DamagedPlan() {
    for (const auto& file : files_ending(".safetensors")) fs::remove(file);
  }
};

/// Shapes in a file; of one tensor another dtype than F32.
struct Header {
  io::Shapes shapes;
  std::string other = {};
  std::string dtype = {};
};

/// Whether nothing reads a tensor, which then may be damaged as it likes: what an encoder of texts has for pictures, and an autoencoder of
/// pictures for video.
bool is_unread(const std::string& name, const Part& part) {
  const bool is_of_clips = part.model.starts_with("wan") || part.model.starts_with("longcat_video");
  const bool sees = name.find("visual.") != name.npos || name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.");
  return name.starts_with("lm_head.") || (sees && !part.references) || (name.find(".time_conv.") != name.npos && !is_of_clips);
}

Header header_of(const fs::path& path, const Part& part) {
  Header header;
  auto file = io::SafetensorsFile::open(path);
  for (const auto& [name, info] : file->tensors()) {
    if (!is_unread(name, part)) header.shapes[name] = info.shape;
  }
  return header;
}

/// Writes a file with the header alone: the data that it promises is a hole.
void write_header(const fs::path& path, const Header& header) {
  static const std::map<std::string, int64_t> kBytes{{"F32", 4}, {"BOOL", 1}, {"I32", 4}, {"I64", 8}, {"U8", 1}};
  json text;
  int64_t at_byte = 0;
  for (const auto& [name, shape] : header.shapes) {
    auto dtype = name == header.other ? header.dtype : "F32";
    auto bytes = kBytes.contains(dtype) ? kBytes.at(dtype) : 4;
    for (auto size : shape) bytes *= size;
    text[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {at_byte, at_byte + bytes}}};
    at_byte += bytes;
  }
  auto dumped = text.dump();
  auto length = static_cast<uint64_t>(dumped.size());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << dumped;
  out.close();
  fs::resize_file(path, 8 + length + static_cast<uint64_t>(at_byte));
}

using Shape = std::vector<int64_t>;

/// The shape of a tensor that is flattened, empty at its first or last side, or of another width; a shape that it has already is no damage.
std::vector<Shape> damages(const Shape& shape) {
  int64_t count = 1;
  for (auto size : shape) count *= size;
  std::vector<Shape> made{{count}, {0}, {}};
  if (!shape.empty()) {
    for (auto at : {size_t{0}, shape.size() - 1}) {
      for (auto size : {int64_t{0}, shape[at] + 1, 2 * shape[at], shape[at] / 2, int64_t{1}}) {
        auto other = shape;
        other[at] = size;
        made.push_back(other);
      }
    }
  }
  std::erase(made, shape);
  return made;
}

/// Which damages a tensor is due: all of them on the first of those that are alike but for numbers in their names; on each of the others
/// one, the next in turn.
class Turns {
 public:
  void begin(std::string name, const Shape& shape) {
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isdigit(c) != 0; }, '#');
    turn_ = num_alike_[name + json(shape).dump()]++;
  }
  bool is_due(size_t number, size_t num_damages) const { return turn_ == 0 || number == (turn_ - 1) % num_damages; }

 private:
  std::map<std::string, size_t> num_alike_;
  size_t turn_ = 0;
};

void Damaged::damage_tensors(int64_t stride) {
  for (const auto& path : files_ending(".safetensors")) {
    const auto whole = header_of(path, GetParam());
    write_header(path, whole);
    ASSERT_EQ(outcome(), "");
    int64_t number = 0, num_damages = 0, num_refused = 0;
    auto look = [&](const Header& damaged) {
      if (number++ % stride != 0) return;
      write_header(path, damaged);
      num_refused += !outcome().empty();
      ++num_damages;
    };
    Turns turns;
    for (const auto& [name, shape] : whole.shapes) {
      SCOPED_TRACE(path.string() + " without " + name);
      auto without = whole;
      without.shapes.erase(name);
      look(without);
      turns.begin(name, shape);
      const auto others = damages(shape);
      for (size_t i = 0; i < others.size(); ++i) {
        if (!turns.is_due(i, others.size())) continue;
        const auto& other = others[i];
        SCOPED_TRACE(path.string() + " " + name + " as " + json(other).dump());
        auto damaged = whole;
        damaged.shapes[name] = other;
        look(damaged);
      }
    }
    // Only sides that nothing else depends on may be any; an adapter may lack its alpha, and rows of alike shapes may be others'.
    EXPECT_LE(num_damages - num_refused, is_adapter() ? num_damages * 2 / 3 + 1 : std::max<int64_t>(1, num_damages / 10));
    write_header(path, whole);
  }
}

/// Which no code reads: how many batches a batch norm has seen, frequencies that are computed, and the norm behind the last layer of a text
/// encoder whose states before it are read; and what may be a whole number: an alpha, and whether IA³ is of inputs.
bool may_be_whole(const Part& part, const std::string& name) {
  const bool is_unread = name.ends_with("num_batches_tracked") || name == "rope.bands" ||
                         (part.model == "minimax_h3_pipeline" && name == "model.language_model.norm.weight");
  return is_unread || name.ends_with(".alpha") || name.ends_with(".on_input");
}

void Damaged::damage_dtypes(int64_t stride) {
  for (const auto& path : files_ending(".safetensors")) {
    auto damaged = header_of(path, GetParam());
    write_header(path, damaged);
    ASSERT_EQ(outcome(/*load=*/true), "");
    int64_t number = 0;
    Turns turns;
    for (const auto& [name, shape] : damaged.shapes) {
      if (number++ % stride != 0 || may_be_whole(GetParam(), name)) continue;
      damaged.other = name;
      turns.begin(name, shape);
      const std::vector<std::string> dtypes{"BOOL", "I64", "I32", "U8", "F33"};
      for (size_t i = 0; i < dtypes.size(); ++i) {
        if (!turns.is_due(i, dtypes.size())) continue;
        const auto& dtype = dtypes[i];
        SCOPED_TRACE(path.string() + " " + name + " of " + dtype);
        damaged.dtype = dtype;
        write_header(path, damaged);
        EXPECT_NE(outcome(), "");
      }
    }
  }
}

const std::vector<json>& other_values() {
  static const std::vector<json> kValues{json(),         json("x"),
                                         json(true),     json(0),
                                         json(-1),       json(1.5),
                                         json(1e300),    json(int64_t{1} << 40),
                                         json::array(),  json(std::numeric_limits<int64_t>::max()),
                                         json::object(), json::array({0, -1, "x"})};
  return kValues;
}

void Damaged::damage_settings(int64_t stride) {
  for (const auto& path : files_ending(".json")) {
    const auto whole = io::read_json(path);
    int64_t number = 0;
    auto look = [&](const std::string& text) {
      if (number++ % stride != 0) return;
      std::ofstream(path, std::ios::trunc) << text;
      outcome();
    };
    const auto flat = whole.flatten();
    for (const auto& [name, value] : flat.items()) {
      for (json::json_pointer place(name); !place.empty(); place.pop_back()) {
        for (const auto& other : other_values()) {
          SCOPED_TRACE(path.string() + " " + place.to_string() + " as " + other.dump());
          auto damaged = whole;
          damaged[place] = other;
          look(damaged.dump());
        }
        SCOPED_TRACE(path.string() + " without " + place.to_string());
        auto damaged = whole;
        auto& parent = damaged[place.parent_pointer()];
        if (parent.is_object()) parent.erase(place.back());
        else parent.erase(parent.size() - 1);
        look(damaged.dump());
      }
    }
    for (const char* text : {"", "null", "5", "[]", "{}", "\"x\"", "{\"a\": "}) {
      SCOPED_TRACE(path.string() + " is " + text);
      std::ofstream(path, std::ios::trunc) << text;
      outcome();
    }
    std::ofstream(path, std::ios::trunc) << whole;
    ASSERT_EQ(outcome(), "");
  }
}

// clang-format off
const std::vector<Part> kFurtherParts{
    {"qwen_edit_pipeline", "text_encoder", true}, {"qwen_edit_pipeline", "", true}, 
    {"krea2_pipeline", "text_encoder", true, nullptr, "krea2_edit"}, {"boogu_pipeline", "mllm", true},
    {"fibo2_pipeline", "text_encoder", true},
    {"pipeline", "controlnet", false, "flux_extras/controlnet"}, {"pipeline", "image_encoder", false, "flux_extras/siglip"},
    {"pipeline", "ipadapter", false, "flux_extras/ipadapter.bin"}, {"pipeline", "flux_redux_image_embedder", false, "flux_extras/redux.safetensors"},
    {"pipeline", "value_controller", false, "flux_extras/value_controller.safetensors"},
    {"pipeline", "lora_encoder", false, "flux_extras/lora_encoder.safetensors"},
    {"pipeline", "image_proj_model", false, "infinite_you/image_proj_model.bin"}, {"pipeline", "controlnet", false, "infinite_you/controlnet"},
    {"pipeline", "controlnet", false, "flux_extras/inpaint"}, {"pipeline", kStep1x, true, "step1x/qwen"},
    {"qwen_image_pipeline", "blockwise_controlnet", false, "qwen_blockwise/control.safetensors"},
    {"qwen_image_pipeline", "blockwise_controlnet", false, "qwen_blockwise/inpaint.safetensors"},
    {"qwen_image_21_pipeline", "controlnet", false, "qwen_image_21_control/control.safetensors"},
    {"pipeline", kAdapter, false, "wild/dora.safetensors"}, {"pipeline", kAdapter, false, "wild/patterns.safetensors"},
    {"pipeline", kAdapter, false, "flux_extras/lora_0.safetensors"}, {"zimage_pipeline", kAdapter, false, "zimage_pipeline/lora.safetensors"},
    {"pipeline", kAdapter, false, "lycoris/dora_input.safetensors"}, {"pipeline", kAdapter, false, "lycoris/loha.safetensors"},
    {"pipeline", kAdapter, false, "lycoris/lokr4.safetensors"}, {"pipeline", kAdapter, false, "lycoris/lokr_full.safetensors"},
    {"pipeline", kAdapter, false, "wild/peft"}, {"pipeline", kAdapter, false, "wild/peft_lokr"}, {"pipeline", kAdapter, false, "wild/kinds/peft_boft"},
    {"pipeline", kAdapter, false, "wild/kinds/peft_coft"}, {"pipeline", kAdapter, false, "wild/kinds/peft_glora"},
    {"pipeline", kAdapter, false, "wild/kinds/peft_glora_numbers"}, {"pipeline", kAdapter, false, "wild/kinds/peft_glora_vectors"},
    {"pipeline", kAdapter, false, "wild/kinds/peft_ia3"}, {"pipeline", kAdapter, false, "wild/kinds/peft_lora_bias"},
    {"pipeline", kAdapter, false, "wild/kinds/peft_oft"}, {"pipeline", kAdapter, false, "wild/kinds/peft_vera"},
    {"sdxl_pipeline", kAdapter, false, "wild/kinds/kohya_oft.safetensors"}, {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_boft.safetensors"},
    {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_dylora.safetensors"}, {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_full.safetensors"},
    {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_glora.safetensors"}, {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_ia3.safetensors"},
    {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_oft.safetensors"},
    {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_oft_limited.safetensors"}, {"sdxl_pipeline", kAdapter, false, "wild/kinds/lycoris_tlora.safetensors"},
};
// clang-format on

/// Every part of every family, its model_index.json, which has no name here, and what more there is.
std::vector<Part> parts() {
  std::vector<Part> all;
  for (const auto& family : test::small_families(&test::SmallFamily::has_own_model)) {
    for (const auto& part : family.parts) all.push_back({family.pipeline(), part});
    all.push_back({family.pipeline(), ""});
  }
  all.insert(all.end(), kFurtherParts.begin(), kFurtherParts.end());
  return all;
}
std::vector<Part> denoisers() {
  std::vector<Part> all;
  for (const auto& family : test::small_families(&test::SmallFamily::has_own_model)) all.push_back({family.pipeline(), family.parts[0]});
  return all;
}

std::string name_of(const testing::TestParamInfo<Part>& info) {
  auto name = info.param.model + "_" + (info.param.folder.empty() ? "index" : info.param.folder);
  if (info.param.references) name += "_with_references";
  if (info.param.given == nullptr) return name;
  name += "_";
  for (char c : std::string(info.param.given)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

}  // namespace

TEST_P(Damaged, SomeTensors) { damage_tensors(151); }
TEST_P(Damaged, SomeDtypes) { damage_dtypes(41); }
TEST_P(Damaged, SomeSettings) { damage_settings(29); }
INSTANTIATE_TEST_SUITE_P(Models, Damaged, testing::ValuesIn(parts()), name_of);

TEST_P(DamagedPlan, SomeSettings) { damage_settings(11); }
INSTANTIATE_TEST_SUITE_P(Models, DamagedPlan, testing::ValuesIn(denoisers()), name_of);

TEST_P(EveryDamage, OfTensors) { damage_tensors(1); }
TEST_P(EveryDamage, OfDtypes) { damage_dtypes(1); }
TEST_P(EveryDamage, OfSettings) { damage_settings(1); }
INSTANTIATE_TEST_SUITE_P(Models, EveryDamage, testing::ValuesIn(parts()), name_of);
