#pragma once
#include <ATen/CPUGeneratorImpl.h>

#include "adapters/adapter_tensors.h"
#include "adapters/attach.h"
#include "convert/convert.h"
#include "loras/lora_file.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/places.h"
#include "tests/scratch.h"

// Small models of tests/golden, and adapters on their layers.
namespace burnish::test {

inline const std::vector<std::string> kPipelines{"pipeline", "sdxl_pipeline", "sd15_pipeline"};

/// Of one of these, or of "tiny-flux" in assets/.
inline std::string model_path(const std::string& pipeline) {
  return pipeline == "tiny-flux" ? std::string(test::kCheckout) + "/assets/tiny-flux" : golden_path(pipeline + "/model");
}

inline std::unique_ptr<models::Model> open_model(const std::string& path) {
  models::ModelOptions options;
  options.dtype = at::kFloat;
  options.own = models::default_options();
  options.tokenizer_path = std::string(test::kCheckout) + "/assets/tiny-flux/tokenizer";
  auto files = models::open_model_files({{path}, "", ""});
  bool is_flux = !fs::exists(fs::path(path) / "unet");  // whose second encoder has another tokenizer
  if (is_flux) options.tokenizer_2_path = std::string(test::kCheckout) + "/assets/tiny-flux/tokenizer_2";
  return models::open_model(files, options);
}

/// Adapters of a kind with drawn numbers and alpha 3 on every `step`-th layer of every component but the autoencoder, in diffusers' paths
/// as OneTrainer writes them: one name a layer, and alpha beside it.
inline void write_adapters(const std::string& path, const std::string& pipeline, adapters::AdapterOptions options, size_t step = 1) {
  auto model = open_model(model_path(pipeline));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  io::NamedTensors tensors;
  at::NoGradGuard no_grad;
  options.alpha = 3;
  for (const auto& [component, names] : model->names().components) {
    if (component == "vae") continue;
    model->components().load(component);
    auto& module = model->components().module(component);
    std::vector<std::string> paths;
    size_t count = 0;
    for (const auto& [layer, map] : adapters::all_layers(module)) {
      if (count++ % step == 0) paths.push_back(layer);
    }
    auto adapted = adapters::attach(module, options, paths, 1);
    for (const auto& item : adapted) {
      for (auto& [name, value] : item.adapter->parameters()) value.add_(at::empty_like(value).normal_(0, 0.1, generator).abs_());
    }
    for (auto& t :
         adapters::adapter_tensors(adapted, loras::layer_prefixes(*model, component), at::kBFloat16, adapters::Layout::onetrainer))
      tensors.push_back(t);
  }
  io::save_safetensors(path, tensors);
}

inline io::TensorSource open_file(const std::string& path) { return io::TensorSource::open({path}); }

/// Expects the same names, dtypes, shapes and bits.
inline void expect_same_tensors(const io::TensorSource& found, const io::TensorSource& expected) {
  EXPECT_EQ(found.names(), expected.names());
  for (const auto& name : expected.names()) {
    if (!found.contains(name)) continue;
    auto a = found.tensor(name), b = expected.tensor(name);
    ASSERT_EQ(a.scalar_type(), b.scalar_type()) << name;
    ASSERT_EQ(a.sizes(), b.sizes()) << name;
    auto bytes = [](const at::Tensor& t) { return t.contiguous().flatten().view(at::kByte); };
    EXPECT_TRUE(at::equal(bytes(a), bytes(b))) << name;
  }
}

inline std::string convert_to(convert::Options options, const std::vector<std::string>& paths) {
  options.paths = paths;
  return convert::convert(options);
}

}  // namespace burnish::test
