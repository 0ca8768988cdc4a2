// Hosts the kernel in V8: reads requests from standard input, as lines of JSON with bytes behind them, and answers them.
import fs from "node:fs";

const { instance } = await WebAssembly.instantiate(fs.readFileSync(process.argv[2]));
const kernel = instance.exports;

function bytes(size) {
  const found = Buffer.alloc(size);
  for (let at = 0; at < size; ) at += fs.readSync(0, found, at, size - at, null);
  return found;
}

function send(data) {
  for (let at = 0; at < data.length; ) at += fs.writeSync(1, data, at);
}

// A request: kind, two numbers, and the length of what follows, as four 32-bit integers.
while (true) {
  const head = Buffer.alloc(16);
  if (fs.readSync(0, head, 0, 1, null) === 0) break;
  for (let at = 1; at < 16; ) at += fs.readSync(0, head, at, 16 - at, null);
  const [kind, first, second, size] = [0, 4, 8, 12].map((at) => head.readUInt32LE(at));
  const given = bytes(size);
  const memory = new Uint8Array(kernel.memory.buffer);
  if (kind === 0) {
    send(memory.slice(first, first + second));
  } else if (kind === 1) {
    memory.set(given, first);
  } else if (kind === 2) {
    kernel.memory.grow(first);
  } else {
    const { name, values } = JSON.parse(given.toString());
    const found = kernel[name];
    const answer = Buffer.alloc(8);
    // A 64-bit parameter takes a BigInt; only `normals` has some, its first two.
    const wide = name === "normals" ? 2 : 0;
    const converted = values.map((value, at) => (at < wide ? BigInt(value) : Number(value)));
    answer.writeDoubleLE(Number((typeof found === "function" ? found(...converted) : found.value) ?? 0));
    send(answer);
  }
}
