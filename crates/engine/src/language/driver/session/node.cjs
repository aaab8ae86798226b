// A Node that stays: cells in, events out, one JSON value a line. crates/engine/src/interpreter/mod.rs has the protocol.
// It is sent through descriptor 3, where orders come from; events go to 4. Descriptors 1 and 2 are named pipes. A second
// thread reads them and the orders: so output is streamed, and an interrupt heard, while code never returns to the loop.
"use strict";
const fs = require("fs");
const os = require("os");
const path = require("path");
const util = require("util");
const url = require("url");
const vm = require("vm");
const modules = require("module");
const { Console } = require("console");
const { Writable } = require("stream");
const { Worker } = require("worker_threads");
const inspector = require("inspector");
const { promiseHooks } = require("v8");

const [, folder, language] = process.argv;
// The longest event; the engine takes no longer line.
const MOST = 6 << 20;

// Between the two threads: marks seen on 1 and on 2, events written; where this thread is, in which cell, the last one done.
const shared = new Int32Array(new SharedArrayBuffer(24));
const [WHERE, CELL, DONE] = [3, 4, 5];
// Node forgets who listens for SIGINT while it begins and ends a script that SIGINT may break: one that came then would end
// the process, or the next cell. So it is sent only to a thread that is inside such a script, once, and waited for there.
const [OUTSIDE, BETWEEN, INSIDE, BROKEN] = [0, 1, 2, 3];
// It begins with a byte that text does not have.
const mark = Buffer.concat([Buffer.alloc(1), require("crypto").randomBytes(16)]);
const flags = fs.constants.O_RDONLY | fs.constants.O_NONBLOCK;
const pipes = [1, 2].map((name) => fs.openSync(`${folder}/${name}`, flags));
fs.rmSync(folder, { recursive: true, force: true });

const pump = new Worker(
  `"use strict";
  const fs = require("fs");
  const { parentPort, workerData } = require("worker_threads");
  const { StringDecoder } = require("string_decoder");
  const { shared, pipes, WHERE, CELL, DONE, OUTSIDE, INSIDE, BROKEN } = workerData;
  const mark = Buffer.from(workerData.mark);
  const write = (line) => {
    const all = Buffer.from(line + "\\n");
    for (let at = 0; at < all.length; ) {
      try {
        at += fs.writeSync(4, all, at);
      } catch (error) {
        if (error.code !== "EAGAIN") process.exit(1);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      }
    }
  };
  const signal = (index) => {
    Atomics.add(shared, index, 1);
    Atomics.notify(shared, index);
  };
  // How much of the end could be the beginning of a mark.
  const doubtful = (data) => {
    for (let size = Math.min(mark.length - 1, data.length); size > 0; size--)
      if (data.subarray(data.length - size).equals(mark.subarray(0, size))) return size;
    return 0;
  };
  pipes.forEach((fd, index) => {
    const decoder = new StringDecoder("utf8");
    const emit = (bytes) => {
      const text = decoder.write(bytes);
      if (text) write(JSON.stringify({ event: index ? "stderr" : "stdout", text }));
    };
    let held = Buffer.alloc(0);
    new (require("net").Socket)({ fd, readable: true, writable: false }).on("data", (chunk) => {
      let data = held.length ? Buffer.concat([held, chunk]) : chunk;
      for (let at; (at = data.indexOf(mark)) >= 0; data = data.subarray(at + mark.length)) {
        emit(data.subarray(0, at));
        signal(index);
      }
      const size = doubtful(data);
      emit(data.subarray(0, data.length - size));
      held = Buffer.from(data.subarray(data.length - size));
    });
  });
  parentPort.on("message", (line) => {
    write(line);
    signal(2);
  });
  const interrupt = (id) => {
    if (Atomics.load(shared, DONE) >= id) return;
    const where = Atomics.load(shared, CELL) === id ? Atomics.load(shared, WHERE) : undefined;
    if (where === OUTSIDE) parentPort.postMessage({ stop: id });
    // The whole group: what the cell has started and waits for is interrupted too.
    else if (where === INSIDE && Atomics.compareExchange(shared, WHERE, INSIDE, BROKEN) === INSIDE) process.kill(0, "SIGINT");
    else setTimeout(interrupt, 1, id);
  };
  let rest = [];
  fs.createReadStream(null, { fd: 3 })
    .on("data", (chunk) => {
      for (let at; (at = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(at + 1)) {
        const order = JSON.parse(Buffer.concat([...rest, chunk.subarray(0, at)]).toString());
        if (order.op === "interrupt") interrupt(order.id);
        else parentPort.postMessage({ order });
        rest = [];
      }
      rest.push(chunk);
    })
    .on("end", () => parentPort.postMessage({ end: true }));`,
  { eval: true, workerData: { shared, pipes, mark, WHERE, CELL, DONE, OUTSIDE, INSIDE, BROKEN }, stdin: false },
);

const writeAll = (fd, bytes) => {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(fd, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
};
const waitFor = (index, act) => {
  const before = Atomics.load(shared, index);
  act();
  for (let tries = 0; Atomics.load(shared, index) === before && tries < 50; tries++) Atomics.wait(shared, index, before, 100);
};
// What was written is told before the event, and what is written afterwards after it.
const flush = () => [1, 2].forEach((fd) => waitFor(fd - 1, () => writeAll(fd, mark)));
const tell = (event) => {
  flush();
  waitFor(2, () => pump.postMessage(JSON.stringify(event)));
};

// Written at once: what a cell printed is out, however the process ends.
const outlet = (fd) => {
  const stream = new Writable({
    decodeStrings: true,
    write(chunk, encoding, done) {
      writeAll(fd, chunk);
      done();
    },
  });
  return Object.assign(stream, { fd, isTTY: false, _destroy: (error, done) => done(error) });
};
const streams = { stdout: outlet(1), stderr: outlet(2) };
for (const name of ["stdout", "stderr"]) Object.defineProperty(process, name, { configurable: true, get: () => streams[name] });
Object.defineProperty(process, "stdin", { configurable: true, get: () => fs.createReadStream("/dev/null") });
globalThis.console = new Console({ ...streams, inspectOptions: { colors: false } });

class Exit {
  constructor(code) {
    this.code = code;
  }
}
process.exit = (code = process.exitCode ?? 0) => {
  throw new Exit(Number(code) & 255);
};
process.on("exit", flush);

const shortened = (text, most) =>
  text.length <= most ? text : `${text.slice(0, most / 2)}\n[... ${text.length - most} characters cut ...]\n${text.slice(-most / 2)}`;
const inspected = (value) => {
  try {
    return util.inspect(value);
  } catch (error) {
    return `<a value that cannot be shown: ${error}>`;
  }
};
const bundleOf = (value) => {
  const data = { "text/plain": inspected(value) };
  try {
    const own = value?.[Symbol.for("Jupyter.display")];
    if (typeof own === "function") Object.assign(data, own.call(value));
  } catch {
    // A form that cannot be had is not shown; the plain one always is.
  }
  return data;
};
const sendable = (bundle) => {
  const data = {};
  const dropped = [];
  let room = MOST;
  for (let [kind, part] of Object.entries(bundle)) {
    if (part instanceof Uint8Array) part = Buffer.from(part).toString("base64");
    if (kind === "text/plain") part = shortened(String(part), MOST / 16);
    let size = Infinity;
    try {
      size = Buffer.byteLength(JSON.stringify(part));
    } catch {
      // No JSON.
    }
    if (size > room) {
      dropped.push(kind);
    } else {
      room -= size;
      data[kind] = part;
    }
  }
  return dropped.length ? { data, dropped } : { data };
};

const cell = { id: 0, name: "", stop: () => {} };
globalThis.display = (value, options) => {
  tell({ event: "display", id: cell.id, ...sendable(options?.raw ? value : bundleOf(value)) });
};

// V8's own way for prompts: `await` at the top, and names that may be declared again.
const session = new inspector.Session();
session.connect();
const holder = {};
const HOLDER = Symbol.for("saggar.holder");
globalThis[HOLDER] = holder;
let holderId;
session.post("Runtime.evaluate", { expression: `globalThis[Symbol.for("saggar.holder")]` }, (_, answer) => {
  holderId = answer.result.objectId;
});
delete globalThis[HOLDER];
const valueOf = (remote) => {
  const { objectId, unserializableValue, value } = remote;
  const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value };
  if (remote.type === "undefined") return undefined;
  const functionDeclaration = "function (value) { this.value = value; }";
  session.post("Runtime.callFunctionOn", { objectId: holderId, functionDeclaration, arguments: [argument] }, () => {});
  const found = holder.value;
  delete holder.value;
  return found;
};

const isBare = (name) => !/^(\.{0,2}\/|[a-z]+:)/.test(name);
const load = async (name) => {
  const text = String(name);
  if (modules.isBuiltin?.(text) || /^(node|file|data):/.test(text)) return import(text);
  const here = path.join(process.cwd(), "cell.js");
  const found = isBare(text) ? modules.createRequire(here).resolve(text) : path.resolve(path.dirname(here), text);
  return import(url.pathToFileURL(found).href);
};
Object.defineProperty(globalThis, "__import__", { value: load, configurable: true });

// Strings and comments are left alone.
const LITERAL = String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|` + "`(?:\\\\[\\s\\S]|[^`\\\\])*`" + String.raw`|\/\/[^\n]*|\/\*[\s\S]*?\*\/`;
const STATIC = String.raw`(?<=^|[;\n])(\s*)import\s+(?:([\w$*{},\s]+?)\s+from\s+)?("[^"\n]+"|'[^'\n]+')(?:\s+with\s*\{[^}]*\})?`;
const prepared = (code) => {
  const plain = code.replace(new RegExp(`${STATIC}|(${LITERAL})`, "g"), (all, space, clause, name, literal) => {
    if (literal !== undefined) return literal;
    const loaded = `await __import__(${name})`;
    // A semicolon, for the next line may begin with a bracket.
    if (!clause) return `${space}${loaded};`;
    const lines = "\n".repeat(clause.split("\n").length - 1);
    const parts = [];
    const named = /\{([\s\S]*)\}/.exec(clause);
    if (named) parts.push(named[1].replace(/\s+as\s+/g, ": ").replace(/\n/g, " "));
    const all_ = /\*\s*as\s+([\w$]+)/.exec(clause);
    const first = /^\s*([\w$]+)/.exec(clause);
    if (first) parts.push(`default: ${first[1]}`);
    if (!all_) return `${space}const { ${parts.join(", ")} } = ${loaded};${lines}`;
    return `${space}const ${all_[1]} = ${loaded}${first ? `, { ${parts.join(", ")} } = ${all_[1]}` : ""};${lines}`;
  });
  return plain.replace(new RegExp(`(${LITERAL})|(?<![\\w$.])import(?=\\s*\\()`, "g"), (all, literal) => literal ?? "__import__");
};

// The inspector would answer from within the garbage collector when a promise that a cell awaits is collected, and V8 ends
// the process for that. So what a cell awaits is held until it is settled, for good if the cell was given up.
const abandoned = [];
const hold = () => {
  const held = new Set();
  const free = promiseHooks.createHook({ init: (promise) => held.add(promise), settled: (promise) => held.delete(promise) });
  return { held, free };
};

const evaluate = (expression) =>
  new Promise((resolve, reject) => {
    const { held, free } = /\bawait\b/.test(expression) ? hold() : { held: undefined, free() {} };
    const post = () => {
      let isBroken = false;
      Atomics.store(shared, WHERE, INSIDE);
      session.post("Runtime.evaluate", { expression, replMode: true, objectGroup: "cell" }, (error, answer) => {
        free();
        isBroken = /terminated/.test(error?.message);
        if (error) reject(isBroken ? new Interrupted() : new Error(error.message));
        else resolve(answer);
      });
      if (Atomics.compareExchange(shared, WHERE, INSIDE, BETWEEN) === INSIDE) return;
      // On its way; unless a script of the user's took it.
      for (const end = Date.now() + 2000; !isBroken && Date.now() < end; );
      cell.stop();
    };
    globalThis[HOLDER] = post;
    cell.stop = () => {
      free();
      abandoned.push(held);
      reject(new Interrupted());
    };
    try {
      new vm.Script(`globalThis[Symbol.for("saggar.holder")]()`).runInThisContext({ breakOnSigint: true });
    } catch (error) {
      if (error?.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED") cell.stop();
      else reject(error);
    } finally {
      delete globalThis[HOLDER];
      Atomics.store(shared, WHERE, OUTSIDE);
    }
  });
class Interrupted extends Error {
  name = "Interrupted";
  message = "the cell was interrupted; what it had started goes on";
  stack = `${this.name}: ${this.message}`;
}
// By itself it ends nothing.
process.on("SIGINT", () => {});

const late = (error) => {
  if (error instanceof Exit) cell.leave?.(error);
  else streams.stderr.write(`Uncaught ${error?.stack ? own(error.stack) : inspected(error)}\n`);
};
process.on("uncaughtException", late);
process.on("unhandledRejection", late);

// Without the frames of this driver.
const own = (stack) => {
  const lines = String(stack).split("\n");
  const end = lines.findIndex((line) => /^\s+at .*(node:inspector|\[eval|evalmachine)/.test(line));
  return (end < 0 ? lines : lines.slice(0, end)).join("\n");
};
const describe = (error, details, code) => {
  const isError = error !== null && typeof error === "object" && typeof error.stack === "string";
  const name = isError ? String(error.name || "Error") : "Thrown";
  const value = isError ? String(error.message) : inspected(error);
  let line = null;
  let traceback = isError ? own(error.stack) : `Uncaught ${value}`;
  const found = isError && new RegExp(`\\b${cell.name}:(\\d+)`).exec(traceback);
  if (found) line = Number(found[1]);
  else if (isError && error instanceof SyntaxError && details) {
    line = details.lineNumber + 1;
    traceback = `${cell.name}:${line}\n${code.split("\n")[line - 1] ?? ""}\n${" ".repeat(details.columnNumber)}^\n${name}: ${value}`;
  }
  return { name: name.slice(0, 200) || "Error", value: shortened(value, MOST / 16), traceback: shortened(traceback, 128 << 10), line };
};

const stripped = (code) => {
  if (!modules.stripTypeScriptTypes) throw new Error("this Node strips no types; Node 22.13 is the first that does");
  const { emitWarning } = process;
  // That it is new is no news of the user's.
  process.emitWarning = () => {};
  try {
    return modules.stripTypeScriptTypes(code);
  } finally {
    process.emitWarning = emitWarning;
  }
};

let count = 0;
let place = process.cwd();
const serve = async (order) => {
  Atomics.store(shared, WHERE, BETWEEN);
  Atomics.store(shared, CELL, order.id);
  Object.assign(cell, { id: order.id, name: `cell-${++count}` });
  const before = Object.entries(order.env ?? {}).map(([name, value]) => {
    const old = process.env[name];
    process.env[name] = value;
    return [name, old];
  });
  const begun = process.cpuUsage();
  const done = { event: "done", id: order.id, status: "ok", code: 0, count };
  const fail = (error, details) => {
    if (error instanceof Exit) return Object.assign(done, { status: "exit", code: error.code });
    Object.assign(done, { status: error instanceof Interrupted ? "interrupted" : "error", code: 1 });
    tell({ event: "error", id: order.id, ...describe(error, details, order.code) });
  };
  try {
    if (order.cwd) process.chdir(order.cwd);
    globalThis.require = modules.createRequire(path.join(process.cwd(), "cell.js"));
    let code = order.code;
    if (language === "typescript") code = stripped(code);
    const leaving = new Promise((_, reject) => (cell.leave = reject));
    const answer = await Promise.race([evaluate(`${prepared(code)}\n//# sourceURL=${cell.name}`), leaving]);
    const value = valueOf(answer.result);
    if (answer.exceptionDetails) fail(value, answer.exceptionDetails);
    else if (value !== undefined) tell({ event: "result", id: order.id, count, ...sendable(bundleOf(value)) });
  } catch (error) {
    fail(error);
  }
  Atomics.store(shared, DONE, order.id);
  cell.stop = () => {};
  cell.leave = undefined;
  session.post("Runtime.releaseObjectGroup", { objectGroup: "cell" }, () => {});
  for (const [name, old] of before) old === undefined ? delete process.env[name] : (process.env[name] = old);
  try {
    place = process.cwd();
  } catch {
    // It was removed; the name is kept.
  }
  const used = process.cpuUsage(begun);
  tell({ ...done, cpu_ms: (used.user + used.system) / 1000 });
};

let line = Promise.resolve();
const take = (order) => {
  if (order.op === "execute") line = line.then(() => serve(order));
  if (order.op === "chdir")
    line = line.then(() => {
      try {
        process.chdir(order.cwd ?? place);
      } catch {
        // The next cell will say what is missing.
      }
    });
};
const leave = process.reallyExit.bind(process);
pump.on("message", ({ order, stop, end }) => {
  if (order) take(order);
  if (end) leave(0);
  if (stop !== cell.id || Atomics.load(shared, DONE) >= stop) return;
  // What the cell has started is interrupted too.
  process.kill(0, "SIGINT");
  cell.stop();
});
tell({ event: "ready", version: process.versions.node, flavour: language === "typescript" ? "typescript" : "plain" });
