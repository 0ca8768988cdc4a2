// Runs the tests of the page's scripts: node --test tests/app/web/scripts/node.mjs
import { test } from "node:test";

// What browsers have, and an older node lacks.
Map.groupBy ??= (all, keyOf) => {
  const groups = new Map();
  for (const one of all) groups.set(keyOf(one), [...(groups.get(keyOf(one)) ?? []), one]);
  return groups;
};
Uint8Array.fromBase64 ??= (text, { alphabet = "base64" } = {}) => {
  if (/[^\w+/=-]/.test(text)) throw new SyntaxError("no base64");
  return Uint8Array.from(Buffer.from(text, alphabet));
};
Uint8Array.prototype.toHex ??= function () {
  return Buffer.from(this).toString("hex");
};
Uint8Array.prototype.toBase64 ??= function ({ alphabet = "base64" } = {}) {
  return Buffer.from(this).toString(alphabet);
};

for (const file of ["state", "transport", "music", "app", "painting", "plan", "listening", "trade"]) {
  const { tests } = await import(`./${file}.js`);
  for (const [name, act] of Object.entries(tests)) test(`${file}: ${name}`, act);
}
