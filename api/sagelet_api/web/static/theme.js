// Before anything is drawn: the theme that was chosen here; none chosen: the system's.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("sagelet-theme");
    } catch {
      return null; // Storage is switched off.
    }
  };
  const isDark = () => (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
  const apply = () => {
    root.dataset.theme = isDark() ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      // What a click does.
      button.textContent = isDark() ? "Light theme" : "Dark theme";
    }
    document.dispatchEvent(new CustomEvent("sagelet-theme"));
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      try {
        localStorage.setItem("sagelet-theme", isDark() ? "light" : "dark");
      } catch {
        return;
      }
      apply();
    });
  });
})();
