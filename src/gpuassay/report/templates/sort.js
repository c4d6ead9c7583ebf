// Without this a table stands in the order of its file; with it, each column can be sorted by.
const words = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table[data-sort]")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, at) => row.cells[at].dataset.v ?? row.cells[at].textContent.trim();
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (one, other) => words.compare(value(one, at), value(other, at)) * (down ? -1 : 1);
      body.append(...[...rows].sort(order));
    });
  });
}
