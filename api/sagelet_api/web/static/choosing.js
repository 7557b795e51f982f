// The button that compares the chosen jobs. Comparing takes two.
export function offerToCompare(element) {
  const button = document.getElementById("compare-button");
  if (button) button.disabled = element.querySelectorAll("input:checked").length < 2;
}
