// Buttons that copy a text.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    let copied = true;
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      // Browsers have a clipboard for secure origins only: then the text is marked, ready for Ctrl-C.
      getSelection().selectAllChildren(source);
      copied = document.execCommand("copy");
    }
    const word = copied ? "Copied" : "Marked: press Ctrl-C";
    button.textContent = word;
    document.getElementById("copied").textContent = word;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}
