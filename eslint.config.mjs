// The rules for the page's scripts. eslint comes by npx and so is not in this folder: its own packages
// are found from where it lies.
import { realpathSync } from "node:fs";
import { createRequire } from "node:module";

const ofEslint = createRequire(realpathSync(process.argv[1]));
const { configs } = ofEslint("@eslint/js");
const globals = ofEslint("globals");

export default [
  configs.recommended,
  {
    languageOptions: {
      globals: { ...globals.browser, ...globals.audioWorklet, ...globals.serviceworker },
    },
    rules: {
      "no-empty": ["error", { allowEmptyCatch: true }],
      "max-lines-per-function": ["error", { max: 60, skipComments: true, skipBlankLines: true }],
    },
  },
];
