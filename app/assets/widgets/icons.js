// The icons of buttons, drawn as paths: some systems lack characters for them.
const PATHS = {
  play: "M8 5.5v13l10.5-6.5z",
  pause: "M8.5 6v12M15.5 6v12",
  wait: "M12 5a7 7 0 1 1-7 7",
  start: "M6 5v14M19 5 9 12l10 7z",
  how: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5a2 2 0 1 0 0 4 2 2 0 0 0 0-4M9 15a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
  star: "M12 3.5l2.6 5.6 6.1.7-4.5 4.2 1.2 6-5.4-3-5.4 3 1.2-6L3.3 9.8l6.1-.7z",
  bin: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  close: "M6 6l12 12M18 6 6 18",
  less: "M5 12h14",
  more: "M5 12h14M12 5v14",
  fit: "M3 12h18M7 8l-4 4 4 4M17 8l4 4-4 4",
  blind: "M3 12s3.5-6 9-6 9 6 9 6-3.5 6-9 6-9-6-9-6zM4 20 20 4",
  plan: "M3 15c4 0 5-9 9-9s5 7 9 4M3 20h18",
  score: "M3 5h18M3 9h18M3 13h10M3 17h8M17 19V9M14.5 17a2.5 2 0 1 0 0 4 2.5 2 0 0 0 0-4",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  undo: "M8 5 4 9l4 4M4 9h10a5 5 0 0 1 0 10h-3",
  redo: "M16 5l4 4-4 4M20 9H10a5 5 0 0 0 0 10h3",
};

export const mark = (name) =>
  `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${PATHS[name]}"/></svg>`;
