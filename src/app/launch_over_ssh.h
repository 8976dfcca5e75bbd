#pragma once
#include <string>

#include "app/verbs.h"
#include "config/fields.h"

namespace burnish::app {

/// Says how a run is started on another machine.
struct LaunchOverSsh {
  std::string host = {}, folder = "burnish-runs", program = "burnish", wheel = {};
  double poll_seconds = 5;
  bool stop = false, leave = false;
};
void fields(config::Fields& fields, LaunchOverSsh& options);

/// Trains by the options of `command` ("train ...") on another machine: what they name goes there, the run is started detached, and its
/// log, previews and weights come to output_path here. Called again it follows what goes on, and goes on with what was cut off.
void launch_over_ssh(const LaunchOverSsh& options, const Arguments& command);

}  // namespace burnish::app
