#pragma once
#include <functional>
#include <string>
#include <vector>

#include "quant/way.h"
#include "train/subject/storage.h"

namespace burnish::train {

/// Measures how many times as long a product takes in one way as in another.
using Measure = std::function<double(const quant::Way& way, const quant::Way& other, const quant::Sides& sides)>;

/// Says for the log which options that choose how layers multiply make them slower than without: a line each, with the factor that was
/// measured on this machine's processor, and what to do. None where the model's device is another, and none of layers so small that calls
/// take as long as products.
std::vector<std::string> slow_ways(const models::Model& model, const ModelChoice& choice, c10::Device device,
                                   const TrainedStorage& trained = {}, const Measure& measure = quant::times_as_long);

}  // namespace burnish::train
