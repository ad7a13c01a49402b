// The theme makes a landmark of each copy button, all with the same name: readers of screens need one name for each.
const name = () =>
  document.querySelectorAll("nav.md-code__nav:not([aria-label])").forEach((nav) => {
    nav.setAttribute("aria-label", `Copy ${nav.parentElement.id || nav.nextElementSibling?.id || Math.random()}`);
  });
new MutationObserver(name).observe(document.documentElement, { childList: true, subtree: true });
name();
