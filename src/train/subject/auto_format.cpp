#include "train/subject/auto_format.h"

#include <fmt/core.h>

#include "quant/int8_mm.h"

namespace burnish::train {

namespace {

std::string become(const ModelChoice& choice, const char* why) {
  return fmt::format("weight_format auto is {}{}: {}", choice.weight_format,
                     choice.int8_compute  ? " with int8_compute"
                     : choice.fp8_compute ? " with fp8_compute"
                                          : "",
                     why);
}

}  // namespace

std::string settle_format(ModelChoice& choice, c10::Device device, const std::function<bool()>& numbers_fit) {
  if (choice.weight_format != kAutoFormat) return "";
  if (choice.fp8_compute) {
    choice.weight_format = "fp8";
    return become(choice, "fp8_compute multiplies it");
  }
  const bool has_products = quant::has_int8_products(device);
  const bool is_faster = quant::rotated_products_are_faster(device), is_asked = choice.int8_compute;
  if (!is_faster && !is_asked && numbers_fit()) {
    choice.fp8_models.clear();
    choice.weight_format = ModelChoice().weight_format;
    return fmt::format("weight_format auto leaves weights in {}: the run fits, and a step is not slower", choice.dtype);
  }
  choice.weight_format = "int8_convrot";
  choice.int8_compute = has_products || is_asked;
  return become(choice, is_asked    ? "int8_compute multiplies it"
                        : is_faster ? "its products are faster here"
                                    : "the run does not fit in numbers");
}

}  // namespace burnish::train
