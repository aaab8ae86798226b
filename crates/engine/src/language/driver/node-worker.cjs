// Waits for its order, and then becomes the program it is told. The driver was loaded before it, as for any program.
"use strict";
const fs = require("fs");
// Loaded ahead of need: what starting a program takes.
require("worker_threads");
fs.writeSync(3, "1");
const order = Buffer.alloc(1 << 18);
const words = order.toString("utf8", 0, fs.readSync(3, order)).split("\0");
fs.closeSync(3);
const argv = words.splice(1, Number(words[0]));
process.argv.splice(1, process.argv.length - 1, ...argv);
for (const name of Object.keys(process.env)) delete process.env[name];
for (const word of words.slice(1)) {
  const at = word.indexOf("=");
  process.env[word.slice(0, at)] = word.slice(at + 1);
}
require("module").runMain();
