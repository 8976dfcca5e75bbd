#pragma once
#include "base/say.h"
#include "config/pages.h"
#include "config/refusal.h"

namespace burnish::app {

/// Runs a verb. What it refuses is also printed as JSON where `in_json` says so then: whether it was asked for is read on the way.
template <class Run, class InJson>
void refusing_in_json(const InJson& in_json, const Run& run) {
  try {
    run();
  } catch (const config::Refusal& refusal) {
    if (in_json()) print("{}", config::to_json(refusal.problems()));
    throw;
  }
}

}  // namespace burnish::app
