// The menu, which stands over every page of the studio.

const menu = [["#/", words.runs], ["#/data", words.datasets], ["#/draw", words.drawing.title], ["#/models", words.modelsPage.title], ["#/files", words.fileWords.title], ["#/machine", words.machine.title], ["#/bin", words.binPage.title]];

/** Links to the pages; `root` is what their addresses begin with where the page is none of them. */
const menuLinks = (current, root = "") => menu.map(([hash, title]) => h("a", {href: root + hash, "aria-current": hash === current ? "page" : undefined}, title));

/** Puts the menu over a page that the server makes. */
function addMenu() {
  document.querySelector(".wordmark").replaceWith(h("a", {class: "wordmark", href: `${root}#/`}, "burnish studio"));
  document.querySelector(".wordmark").after(h("nav", {"aria-label": words.pages}, ...menuLinks("#/", root)));
}
