// Weights in codes as ComfyUI's files have them.
#include "convert/codes_in_file.h"

#include <nlohmann/json.hpp>

#include "models/files/coded_weights.h"
#include "tests/convert/convert_files.h"

using namespace burnish;
using namespace burnish::convert;
using namespace burnish::test;

namespace {

std::string text_of(const at::Tensor& bytes) { return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}; }

at::Tensor as_numbers(const at::Tensor& codes) {
  return c10::isFloatingType(codes.scalar_type()) ? codes.view(at::kByte).to(at::kInt) : codes.to(at::kInt);
}

}  // namespace

TEST(CodesInFile, AreThoseOfComfyKitchen) {
  const auto theirs = golden("coded/written.safetensors");
  struct Case {
    std::string layer, format, mark;
    double scale_error;  ///< relative
    int64_t most_apart;  ///< codes that may differ, by one
  };
  // It rotates by a product, whose sums are in another order, and multiplies by what a scale of FP8 is one over.
  for (const auto& [layer, format, mark, scale_error, most_apart] :
       {Case{"int8", "int8", R"({"format":"int8_tensorwise"})", 0, 0},
        {"int8_convrot", "int8_convrot", R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":256})", 1e-6, 2},
        {"int8_convrot_64", "int8_convrot", R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":64})", 1e-6, 2},
        {"nvfp4", "nvfp4", R"({"format":"nvfp4"})", 0, 0},
        {"fp8_tensor", "fp8_tensor", "", 0, 2}}) {
    SCOPED_TRACE(layer);
    const auto numbers = theirs.tensor("numbers." + layer);
    const auto ours =
        tensors_of(codes_for_file(numbers, format == "nvfp4" ? kNvfp4 : quant::parse_format(format), layer), layer + ".weight");
    const auto planned = tensors_of(codes_for_file(numbers.to(at::kMeta), format == "nvfp4" ? kNvfp4 : quant::parse_format(format), layer),
                                    layer + ".weight");
    ASSERT_EQ(planned.size(), ours.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const auto& [name, tensor] = ours[i];
      EXPECT_EQ(planned[i].first, name);
      EXPECT_EQ(planned[i].second.sizes(), tensor.sizes()) << name;
      EXPECT_EQ(planned[i].second.scalar_type(), tensor.scalar_type()) << name;
      if (name.ends_with(".comfy_quant")) {
        EXPECT_EQ(text_of(tensor), mark);
        continue;
      }
      ASSERT_TRUE(theirs.contains(name)) << name;
      const auto expected = theirs.tensor(name);
      ASSERT_EQ(tensor.sizes(), expected.sizes()) << name;
      ASSERT_EQ(tensor.scalar_type(), expected.scalar_type()) << name;
      if (name.ends_with(".weight")) {
        const auto apart = (as_numbers(tensor) - as_numbers(expected)).abs();
        EXPECT_LE(apart.max().item<int64_t>(), 1);
        EXPECT_LE(apart.sum().item<int64_t>(), most_apart);
      } else {
        EXPECT_LE(relative_error(tensor.to(at::kFloat), expected.to(at::kFloat)), scale_error) << name;
      }
    }
  }
}

TEST(CodesInFile, AreReadBackAsTheirNumbers) {
  Scratch scratch;
  at::manual_seed(0);
  const auto weight = at::randn({48, 320}) * at::rand({48, 1});
  for (const auto& [name, bound] :
       {std::pair("int8", 0.012), {"int8_convrot", 0.01}, {"nvfp4", 0.15}, {"fp8", 0.04}, {"fp8_tensor", 0.04}}) {
    SCOPED_TRACE(name);
    const auto format = std::string(name) == "nvfp4" ? kNvfp4 : quant::parse_format(name);
    io::save_safetensors(scratch / "file.safetensors", tensors_of(codes_for_file(weight, format, "l"), "l.weight"));
    const auto shown = models::show_weights(open_file((scratch / "file.safetensors").string()));
    EXPECT_EQ(shown.names(), std::vector<std::string>{"l.weight"});
    EXPECT_TRUE(shown.info("l.weight").codes.has_value());
    EXPECT_LE(relative_error(shown.tensor("l.weight"), weight), bound);
    EXPECT_GT(relative_error(shown.tensor("l.weight"), weight), 1e-4);
  }
  // A weight whose sides NVFP4 has no blocks for is left as it is.
  EXPECT_FALSE(fits(kNvfp4, {40, 320}));
  EXPECT_TRUE(fits(quant::parse_format("int8"), {40, 320}));
}

TEST(CodesInFile, ATransformerIsWrittenAndComputesAsItsCodes) {
  Scratch scratch;
  const auto at = [&](const char* name) { return (scratch / name).string(); };
  convert_to({}, {model_path("pipeline"), at("plain")});
  for (const char* format : {"int8", "int8_convrot", "nvfp4"}) {
    SCOPED_TRACE(format);
    convert_to({.weight_format = format, .overwrite = true}, {at("plain"), at("coded")});
    auto coded = open_model(at("coded"));
    coded->components().check("dit");
    // What was coded stays so on the way into one file and back; what is turned into numbers is what the codes stand for.
    convert_to({.overwrite = true}, {at("coded"), at("again")});
    if (format != std::string("nvfp4"))
      expect_same_tensors(open_file(at("again/transformer/diffusion_pytorch_model.safetensors")),
                          open_file(at("coded/transformer/diffusion_pytorch_model.safetensors")));
    convert_to({.weight_format = "none", .dtype = "fp32", .overwrite = true}, {at("coded"), at("numbers")});
    const auto numbers = open_file(at("numbers/transformer/diffusion_pytorch_model.safetensors"));
    const auto plain = open_file(at("plain/transformer/diffusion_pytorch_model.safetensors"));
    size_t num_coded = 0;
    for (const auto& name : plain.names()) {
      const auto error = relative_error(numbers.tensor(name), plain.tensor(name).to(at::kFloat));
      EXPECT_LE(error, format == std::string("nvfp4") ? 0.2 : 0.02) << name;
      num_coded += error > 1e-4;
    }
    EXPECT_GT(num_coded, 10u);
  }
}
