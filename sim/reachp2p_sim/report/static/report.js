"use strict";
// Copying the replay line, and a line under the pointer that tells the time in the state strip.

for (const button of document.querySelectorAll("[data-copy]")) {
  const text = document.getElementById(button.dataset.copy).textContent;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(document.getElementById(button.dataset.copy));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
}

for (const field of document.querySelectorAll(".field.rows")) {
  const cursor = field.querySelector(".cursor");
  const end = Number(field.dataset.end);
  field.addEventListener("pointermove", (event) => {
    const box = field.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    cursor.hidden = false;
    cursor.style.left = `${share * 100}%`;
    cursor.firstElementChild.textContent = `${(share * end).toFixed(end > 200 ? 1 : 2)} s`;
  });
  field.addEventListener("pointerleave", () => { cursor.hidden = true; });
}
