// Comparing takes two jobs.
import "./times.js";

const picker = document.getElementById("picker");
const button = picker.querySelector("button.primary");

function offer() {
  button.disabled = picker.querySelectorAll("input[name=job]:checked").length < 2;
}

picker.addEventListener("change", offer);
offer();
