// Leaves a record of the exception that ends the program. A monitor: it changes nothing about how the program ends.
// Loaded before the program by --require; the program's own lines and arguments stay as they are.
"use strict";
// Node counts processors in /proc/stat, which a run does not have; tell it the run's own number.
const os = require("os");
if (os.cpus().length === 0) {
  const { readFileSync } = require("fs");
  // Read each time: a worker that waits has it changed.
  const count = () => Number(readFileSync("/sys/devices/system/cpu/online", "utf8").trim().split("-").pop()) + 1;
  const one = { model: "", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } };
  os.cpus = () => Array.from({ length: count() }, () => ({ ...one, times: { ...one.times } }));
  os.availableParallelism = count;
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
