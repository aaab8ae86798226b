// Calls one function of a program for the judge, which is outside. Standard input and output are the conversation: one
// line of JSON each way. What the program prints goes to standard error.
"use strict";
const fs = require("fs");
const path = require("path");
const order = JSON.parse(fs.readFileSync(0, "utf8"));
const write = fs.writeSync;
const stringify = JSON.stringify;
const file = process.argv[2];
const reads = process.stdout.fd;

const tell = (answer) => {
  const text = stringify(answer);
  const body = Buffer.from(text.length > 8 << 20 ? stringify({ unsupported: "a value of more than 8 MiB" }) : text);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  const all = Buffer.concat([head, body]);
  let at = 0;
  while (at < all.length) {
    try {
      at += write(reads, all, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
  process.reallyExit(0);
};

// Both of the program's outputs are one that the judge does not read.
const toError = (chunk, encoding, done) => {
  process.stderr.write(chunk, typeof encoding === "string" ? encoding : undefined);
  const after = typeof encoding === "function" ? encoding : done;
  if (after) process.nextTick(after);
  return true;
};
process.stdout.write = toError;

const isArray = Array.isArray;
const plain = (value, depth) => {
  if (depth > 100) throw new Error("a value nested too deeply, or one that contains itself");
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (value === undefined) return null;
  if (typeof value === "number") return Number.isFinite(value) ? value : { $py: `float('${value}')` };
  if (typeof value === "bigint") return { $py: `${value}` };
  if (isArray(value)) {
    const items = [];
    for (let i = 0; i < value.length; i++) items.push(plain(value[i], depth + 1));
    return items;
  }
  const kind = Object.getPrototypeOf(value);
  if (kind === Map.prototype) return { $map: [...value].map(([key, item]) => [plain(key, depth + 1), plain(item, depth + 1)]) };
  if (kind === Set.prototype) return { $set: [...value].map((item) => plain(item, depth + 1)) };
  if (kind === Date.prototype) return value.toISOString();
  if (typeof value === "object" && (kind === Object.prototype || kind === null || value.constructor)) {
    const fields = {};
    for (const key of Object.keys(value)) fields[key] = plain(value[key], depth + 1);
    return fields;
  }
  throw new Error(`a value of type ${typeof value}`);
};

const describe = (error) => {
  const kinds = [];
  let kind = error !== null && typeof error === "object" ? Object.getPrototypeOf(error) : null;
  while (kind && kind !== Object.prototype) {
    kinds.push(`builtins.${kind.constructor.name}`);
    kind = Object.getPrototypeOf(kind);
  }
  const stack = error !== null && typeof error === "object" ? String(error.stack) : "";
  const found = new RegExp(`${path.basename(file)}:(\\d+)`).exec(stack);
  const message = error !== null && typeof error === "object" ? error.message : error;
  return { kinds, message: String(message).slice(0, 8000), line: found ? Number(found[1]) : null };
};

const main = async () => {
  let loaded;
  try {
    loaded = require(file);
  } catch (error) {
    return tell({ load: describe(error) });
  }
  let thing = loaded;
  let owner;
  for (const word of order.entry.split(".")) {
    const name = word.replace(/\(\)$/, "");
    owner = thing;
    thing = thing[name];
    if (thing === undefined) return tell({ missing: `the program exports no \`${name}\`` });
    if (word !== name) thing = new thing();
  }
  if (typeof thing !== "function") return tell({ missing: `\`${order.entry}\` is no function` });
  let value;
  try {
    value = await thing.apply(owner, order.args);
  } catch (error) {
    return tell({ raised: describe(error) });
  }
  try {
    tell({ value: plain(value, 0) });
  } catch (error) {
    tell({ unsupported: String(error.message) });
  }
};
main();
