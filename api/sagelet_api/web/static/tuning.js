// The page of a tuning job, kept up to date: every part of it that has an address of its own.
import {offerToCompare} from "./choosing.js";
import {atLeisure, listen, oneAtATime, replacePart} from "./live.js";
import {showTimes} from "./times.js";

const tuning = document.getElementById("tuning");

async function renew(part) {
  await replacePart(part, part.dataset.url);
  showTimes(part);
  offerToCompare(tuning);
}

const renewals = [...tuning.querySelectorAll("[data-url]")].map((part) => {
  const work = () => renew(part);
  return "slow" in part.dataset ? atLeisure(work) : oneAtATime(work);
});

tuning.addEventListener("change", () => offerToCompare(tuning));
offerToCompare(tuning);
listen(tuning.dataset.events, {onChange: () => renewals.forEach((renewal) => renewal())});
