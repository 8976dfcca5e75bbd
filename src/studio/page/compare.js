// The way back from the page of several runs.

document.head.append(h("link", {rel: "stylesheet", href: `${root}page/controls.css`}));
addMenu();
