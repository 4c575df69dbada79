// The few words of DOM that the page needs: find an element, make one, write into one only if it changed.
// Text always goes in as text, never as markup, so nothing a task says can become part of the page.

export const byId = (id) => document.getElementById(id);

/** Makes an element. Attributes whose value is null are left out; children are elements or text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Comparing is much cheaper than laying out again, and four ticks a second mostly say the same. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** A row of choices of which one holds; `chosen` is called with its place. */
export function choice(fieldset, names, chosen) {
  names.forEach((name, place) => {
    const input = make("input", { type: "radio", name: fieldset.id, value: place });
    input.checked = place === 0;
    input.addEventListener("change", () => chosen(place));
    fieldset.append(make("label", {}, input, make("span", {}, name)));
  });
}
