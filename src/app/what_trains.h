#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/registry.h"
#include "train/run/run.h"

namespace burnish::app {

/// A published model as one that may be trained.
struct Trainable {
  std::string name = {}, title = {};
  std::string denoiser = {};  ///< component that predicts; of several experts the first
  int64_t num_bytes = 0;      ///< bytes of what predicts, in bf16
  int64_t side = 0;           ///< pixels of the square pictures that it is usually drawn at
};

Trainable trainable(const models::Variant& published);

/// Lists published models of which each is another size, from the smallest on: the first of every family, and those of it that are half as
/// large or twice as large as the ones before.
std::vector<Trainable> trainable_models();

/// Says what of a model trains: a LoRA of usual rank, or all weights of its denoiser.
enum class Trains { lora, whole };

/// Returns the options with which `burnish plan` plans that for one picture at a time. `memory` is that of a card, or "cpu"; "" for what
/// this machine has.
std::string plan_flags(const Trainable& model, Trains what, const std::string& memory);

/// Tells by plan how it fits.
train::HowItFits how_it_fits(const Trainable& model, Trains what, const std::string& memory);

}  // namespace burnish::app
