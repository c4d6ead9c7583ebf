// The page is whole without this: it only hides what does not contain the words that were typed.
const box = document.querySelector(".filter");
const items = [...document.querySelectorAll("[data-f]")];
const texts = items.map((item) => item.textContent.toLowerCase());
box.hidden = items.length === 0;
box.querySelector("input").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  let left = 0;
  items.forEach((item, index) => {
    item.hidden = !wanted.every((word) => texts[index].includes(word));
    left += item.hidden ? 0 : 1;
  });
  box.querySelector("output").textContent = wanted.length ? `${left} of ${items.length} entries left` : "";
});
