#include "foreign/simpletuner_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"

// Names and defaults: helpers/data_backend/config/image.py, helpers/data_backend/factory.py and helpers/prompts.py of SimpleTuner.
namespace burnish::foreign {

namespace of_simpletuner {
namespace {

/// Keys that a dataset takes of the settings of the run where it does not say it itself.
const std::vector<const char*> kOfAll{"resolution",
                                      "resolution_type",
                                      "caption_strategy",
                                      "instance_prompt",
                                      "prepend_instance_prompt",
                                      "only_instance_prompt",
                                      "minimum_image_size",
                                      "maximum_image_size",
                                      "target_downsample_size",
                                      "disable_multiline_split",
                                      "aspect_bucket_alignment"};

std::string kind_of(const Value& one) { return lower(text_of(one.value("dataset_type", Value("image")))); }

bool is_on(const Value& one, const char* name) { return one.contains(name) && asks_for_something(one[name]); }

/// A side of a square whose area pictures are scaled to; 0 where there is none.
double edge_of(const Settings& all) {
  const auto resolution = all.number("dataset.resolution").value_or(1024);
  const auto type = lower(all.text("dataset.resolution_type", "pixel_area"));
  if (type == "area") return std::sqrt(resolution * 1e6);
  return type == "pixel_area" || type == "pixel" ? resolution : 0;
}

bool is_square(const Settings& all) { return all.on("dataset.crop") && lower(all.text("dataset.crop_aspect", "square")) == "square"; }

/// What sides of pictures are multiples of, whatever the settings say, for the kinds of models that insist on it; 0 for others.
double step_of_kind(const Settings& all) {
  static const std::map<std::string, double> kSteps{{"sd1x", 64},        {"sdxl", 64},       {"flux", 64},         {"sd3", 64},
                                                    {"ltxvideo2", 64},   {"qwen_image", 32}, {"infinitetalk", 32}, {"flux2", 16},
                                                    {"flux3_image", 16}, {"anima", 16},      {"moss_image", 16},   {"longcat_video", 64}};
  if (family(all) == "wan") return lower(all.text("model_flavour")).find("5b") == std::string::npos ? 32 : 64;
  const auto found = kSteps.find(family(all));
  return found == kSteps.end() ? 0 : found->second;
}

int64_t whole_steps(double pixels, const Settings& all) {
  constexpr double kOfAll = 64, kLeast = 8;
  const auto of_kind = step_of_kind(all);
  const auto step = of_kind > 0 ? of_kind : std::max(kLeast, all.number("dataset.aspect_bucket_alignment").value_or(kOfAll));
  return static_cast<int64_t>(std::max(step, std::round(pixels / step) * step));
}

bool has_folder(const Settings& all) { return all.has("dataset.id"); }
bool is_on_hub(const Settings& all) { return lower(all.text("dataset.type")) == "huggingface"; }

/// A value that follows from the side.
Convert by_edge(std::function<Outcome(double edge, const Settings& all)> of) {
  return [of](const Value&, const Settings& all) {
    const auto edge = edge_of(all);
    if (!has_folder(all)) return left_out("");
    return edge < 1 || edge > 1e5 ? left_out("a resolution is a side in pixels (pixel, pixel_area) or megapixels (area)") : of(edge, all);
  };
}

void size_rows(Table& table) {
  for (const char* ours : {"width", "height"})
    table << rewritten("dataset.resolution", ours, by_edge([](double edge, const Settings& all) {
                         return is_square(all) ? carried(whole_steps(edge, all)) : left_out("");
                       }))
                 .otherwise(1024);
  table << rewritten("dataset.resolution", "resolution", by_edge([](double edge, const Settings& all) {
                       if (is_square(all)) return left_out("");
                       const bool is_shorter = lower(all.text("dataset.resolution_type")) == "pixel";
                       return carried(Value::array({std::to_string(std::lround(edge))}),
                                      is_shorter ? "is the shorter side there, and the side of a square of the same area here" : "");
                     }))
               .otherwise(1024);
  auto bucket = [&](const char* ours, const std::function<Value(double edge, const Settings& all)>& of) {
    table << rewritten("dataset.resolution", ours,
                       by_edge([of](double edge, const Settings& all) { return is_square(all) ? left_out("") : carried(of(edge, all)); }))
                 .otherwise(1024);
  };
  bucket("enable_bucket", [](double, const Settings&) { return true; });
  bucket("bucket_no_upscale", [](double, const Settings&) { return false; });
  bucket("bucket_reso_steps", [](double, const Settings& all) { return whole_steps(0, all); });
  bucket("min_bucket_reso", [](double edge, const Settings& all) { return whole_steps(edge / 2, all); });
  bucket("max_bucket_reso", [](double edge, const Settings& all) { return whole_steps(2 * edge, all); });
  table << rewritten("dataset.crop_aspect", "", [](const Value& value, const Settings& all) {
    const auto word = lower(text_of(value));
    return left_out(!all.on("dataset.crop") || word == "square" || word == "preserve" ? "" : "pictures keep their shape, or have one size");
  });
  table << rewritten("dataset.crop_style", "random_crop", [](const Value& value, const Settings& all) {
             const auto word = lower(text_of(value));
             if (!has_folder(all) || !all.on("dataset.crop") || word == "center" || word == "centre") return left_out("");
             return word == "random" ? carried(true) : left_out("pictures are cut at their centre, or anywhere (random_crop)");
           }).otherwise("random");
}

std::string caption_strategy(const Settings& all) {
  return all.on("dataset.only_instance_prompt") ? "instanceprompt" : lower(all.text("dataset.caption_strategy", "filename"));
}

void caption_rows(Table& table) {
  table << rewritten("dataset.caption_strategy", "", [](const Value&, const Settings& all) {
             const auto strategy = caption_strategy(all);
             if (!has_folder(all) || strategy == "textfile" || strategy == "instanceprompt") return left_out("");
             if (strategy == "filename")
               return left_out("a file's name is no caption here; write text files, or metadata with a column prompt");
             return left_out("captions are in text files or in a column prompt of metadata (docs/data.md)");
           }).otherwise("filename");
  table << rewritten("dataset.instance_prompt", "class_tokens", [](const Value& value, const Settings& all) {
    if (caption_strategy(all) != "instanceprompt") return left_out("");
    return value.is_string() ? carried(value, "a text file that lies beside a picture is its caption before this one")
                             : left_out("one caption is for all; write several into text files (enable_wildcard)");
  });
  table << rewritten("dataset.prepend_instance_prompt", "caption_prefix", [](const Value& value, const Settings& all) {
             const bool applies =
                 asks_for_something(value) && caption_strategy(all) != "instanceprompt" && all.has("dataset.instance_prompt");
             return applies ? carried(all.text("dataset.instance_prompt") + " ") : left_out("");
           }).otherwise(false);
  table << rewritten("dataset.disable_multiline_split", "enable_wildcard", [](const Value& value, const Settings& all) {
             if (!has_folder(all) || asks_for_something(value) || caption_strategy(all) != "textfile") return left_out("");
             return carried(true, "of several lines one is drawn at each visit; braces as in {a|b} are drawn from here as well");
           }).otherwise(false);
  table << rewritten("dataset.caption_file_extensions", "caption_extension", [](const Value& value, const Settings&) {
    std::vector<std::string> endings;
    for (const auto& item : value.is_array() ? value : Value::array({value})) {
      const auto ending = text_of(item);
      endings.push_back(ending.starts_with(".") ? ending : "." + ending);
    }
    return carried(join(endings, ","));
  });
}

}  // namespace
}  // namespace of_simpletuner

bool is_simpletuner_data(const Value& tree) {
  auto is_one = [](const Value& one) {
    return one.is_object() && one.contains("id") &&
           (one.contains("dataset_type") || one.contains("instance_data_dir") || one.contains("cache_dir_vae"));
  };
  return tree.is_array() && !tree.empty() && std::ranges::all_of(tree, is_one);
}

void put_simpletuner_datasets(const Value& list, Arranged& arranged) {
  using namespace of_simpletuner;
  std::vector<Dataset> datasets;
  for (const auto& one : list) {
    const auto name = text_of(one["id"]), kind = kind_of(one);
    if (is_on(one, "disabled") || is_on(one, "disable") || kind == "text_embeds" || kind == "image_embeds") continue;
    const auto path = "datasets." + name;
    if (kind != "image" && kind != "video") {
      arranged.not_carried.push_back(fmt::format("{}: dataset_type {}: {}", path, kind,
                                                 kind == "eval" ? "name held-out samples in validation_metadata_path" : kNameReferences));
    } else {
      Value settings = Value::object();
      for (const char* key : kOfAll) {
        if (arranged.tree.contains(key)) settings[key] = arranged.tree[key];
      }
      settings.update(one);
      datasets.push_back({path, settings});
      if (const auto strength = number_of(settings.value("slider_strength", Value())); strength && *strength != 1)
        datasets.back().ours["slider_strength"] = *strength;
      if (!is_on(one, "is_regularisation_data") && !is_on(one, "is_regularization_data")) continue;
      datasets.back().ours["is_reg"] = true;
      arranged.tree["class_target"] = "model";  // what the model before training predicts is the target there
    }
  }
  part_by_media(datasets, [](const Dataset& dataset) {
    return DatasetUse{text_of(dataset.settings.value("instance_data_dir", Value(""))), kind_of(dataset.settings) == "video"};
  });
  arranged.tree["dataset"] = first_of(datasets, arranged);
  arranged.dataset_key = "dataset";
}

void simpletuner_data_rows(Table& table) {
  using namespace of_simpletuner;
  table << rewritten("dataset.instance_data_dir", "dataset_metadata_path", [](const Value& value, const Settings& all) {
    if (is_on_hub(all)) return left_out("");
    return value.is_string() ? carried(value) : left_out("one folder is one dataset");
  });
  table << rewritten("dataset.dataset_name", "dataset_metadata_path",
                     [](const Value& value, const Settings& all) { return is_on_hub(all) ? dataset_of_hub(value, all) : left_out(""); });
  table << rewritten("dataset.type", "", [](const Value& value, const Settings& all) {
             return left_out(lower(text_of(value)) == "local" || is_on_hub(all)
                                 ? ""
                                 : "data lies on this machine, or on Hugging Face; fetch it, and name its folder in dataset_metadata_path");
           }).otherwise("local");
  // Its repeats come on top of the first visit.
  table << rewritten("dataset.repeats", "dataset_repeat", [](const Value& value, const Settings& all) {
             return has_folder(all) ? carried(std::llround(number_of(value).value_or(0)) + 1) : left_out("");
           }).otherwise(0);
  size_rows(table);
  caption_rows(table);
  table << rewritten("dataset.probability", "", [](const Value& value, const Settings&) {
             return left_out(number_of(value) == 1.0 ? "" : "datasets are visited by their repeats; num_repeats may be a fraction");
           }).otherwise(1.0);
}

}  // namespace burnish::foreign
