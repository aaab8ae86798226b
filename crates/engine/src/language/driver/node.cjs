// Leaves a record of the exception that ends the program. A monitor: it changes nothing about how the program ends.
// Loaded before the program by --require; the program's own lines and arguments stay as they are.
// As a program itself (node THIS --worker) it waits for its order, and then becomes the program it is told.
"use strict";
if (require.main === module && process.argv[2] === "--worker") waitForOrder();
// Node counts processors in /proc/stat, which a run does not have; tell it the run's own number.
const os = require("os");
if (os.cpus().length === 0) {
  const last = require("fs").readFileSync("/sys/devices/system/cpu/online", "utf8").trim().split("-").pop();
  const one = { model: "", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } };
  os.cpus = () => Array.from({ length: Number(last) + 1 }, () => ({ ...one, times: { ...one.times } }));
  os.availableParallelism = () => Number(last) + 1;
  require("module").syncBuiltinESMExports();
}
process.on("uncaughtExceptionMonitor", (error) => {
  try {
    if (!require("worker_threads").isMainThread) return;
    const isError = error !== null && typeof error === "object" && "stack" in error;
    const text = isError ? String(error.stack) : String(error);
    const script = process.argv[1].replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const found = new RegExp(script + ":(\\d+)").exec(text);
    const record = {
      type: isError ? String(error.name || error.constructor.name) : typeof error,
      message: String(isError ? error.message : error).slice(0, 8000),
      line: found ? Number(found[1]) : null,
      traceback: text.slice(0, 32000),
    };
    require("fs").writeFileSync("/tmp/.saggar-exception.json", JSON.stringify(record), { flag: "r+" });
  } catch {}
});
if (require.main === module) require("module").runMain();

function waitForOrder() {
  const fs = require("fs");
  const driver = process.argv[1];
  // Loaded ahead of need: what starting a program takes.
  require("worker_threads");
  fs.writeSync(3, "1");
  const order = Buffer.alloc(1 << 18);
  const words = order.toString("utf8", 0, fs.readSync(3, order)).split("\0");
  fs.closeSync(3);
  const [heap, ...argv] = words.splice(1, Number(words[0]));
  require("v8").setFlagsFromString(`--max-old-space-size=${heap}`);
  process.argv.splice(1, process.argv.length - 1, ...argv);
  process.execArgv.unshift(`--max-old-space-size=${heap}`);
  process.execArgv.push("--require", driver);
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const word of words.slice(1)) {
    const at = word.indexOf("=");
    process.env[word.slice(0, at)] = word.slice(at + 1);
  }
}
