#pragma once
#include "pipeline/unit.h"

namespace burnish::pipeline {

/// The difference between units and their twins.
struct Difference {
  std::string prefix;                  ///< before the names of twins and of what they write
  std::set<std::string> values = {};   ///< inputs that they read by the prefixed name: another picture, another prompt
  std::set<std::string> frozen = {};   ///< trained models that they run with frozen weights (Weights::frozen)
  std::set<std::string> initial = {};  ///< trained models that they run with initial ones
  std::set<std::string> turned = {};   ///< trained models that they run as trained, and otherwise: adapters at another strength
};

/// Makes a second way through a graph: for every unit that the difference reaches, because it reads such a value, runs such a model or
/// reads what another twin writes, a twin that computes it of what is on that way. What is not reached is shared by both ways and has no
/// twin. Along frozen and initial weights `units` must hold all that comes before them, so that a twin depends on nothing that trains.
Units twins(const Units& units, const Difference& difference);

/// Returns the units that lead to one of these values, in their order.
Units leading_to(const Units& units, std::set<std::string> values);

}  // namespace burnish::pipeline
