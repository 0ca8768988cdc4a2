// Runs the tests of the page's scripts: node --test tests/app/web/scripts/node.mjs
import { test } from "node:test";

for (const file of ["state", "transport", "music", "app", "painting", "plan", "listening", "trade"]) {
  const { tests } = await import(`./${file}.js`);
  for (const [name, act] of Object.entries(tests)) test(`${file}: ${name}`, act);
}
