// The way back from the page of several runs.

document.querySelector(".wordmark").replaceWith(h("a", {class: "wordmark", href: "/#/"}, "burnish studio"));
