// The pictures that a run learned badly, or knows by heart, as its report names them.

function standOutRow(one) {
  const isBadly = one.stands_out === "badly", percent = Math.round(100 * (Math.exp(isBadly ? one.difference : one.noisy_difference) - 1));
  return h("tr", {}, h("td", {}, isBadly ? "learned badly" : "known by heart"), h("td", {class: "number"}, `${percent > 0 ? "+" : ""}${percent} %`), h("td", {}, one.file || `row ${one.row}`), h("td", {}, one.caption));
}

/** A table a run; nothing of runs whose pictures are all learned alike. */
function showStandOut(runs) {
  const found = runs.filter(run => (run.stand_out ?? []).length > 0);
  $("stand-out").hidden = found.length === 0;
  $("stand-out-list").replaceChildren(...found.map(run => h("div", {class: "scroll"}, runs.length > 1 ? h("h3", {}, run.name) : "",
    h("table", {}, h("thead", {}, h("tr", {}, ...["", "Loss", "Picture", "Caption"].map(title => h("th", {}, title)))), h("tbody", {}, ...run.stand_out.map(standOutRow))))));
}
