// What a run is at, by the words of its status.json, and those that the studio adds.

const stateTitles = {reading: "Reading model and data", planning: "Planning memory", encoding: "Encoding", loading: "Loading weights",
  training: "Training", saving: "Saving", done: "Done", failed: "Failed", interrupted: "Interrupted", gone: "The process is gone", waiting: "Waiting", "": "Empty"};
const isEnd = state => ["done", "failed", "interrupted", "gone"].includes(state);
