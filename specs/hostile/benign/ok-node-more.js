// ok-node-more  [benign]
// Tries: nothing hostile: modules, promises, streams, compression, hashes, timers, child
// processes, a server on its own loopback
// Must hold afterwards: works
// Expected: status exit, exit code 0, survivors 0, wall <= 20 s
const { createHash } = require("crypto"), zlib = require("zlib"), http = require("http"), fs = require("fs/promises"), { spawn } = require("child_process"), os = require("os"), { pipeline } = require("stream/promises"), { Readable } = require("stream");
(async () => {
  if (createHash("sha256").update("x").digest("hex").slice(0, 8) !== "2d711642") throw new Error("hash");
  if (zlib.gunzipSync(zlib.gzipSync("data")).toString() !== "data") throw new Error("zlib");
  await fs.writeFile("a.json", JSON.stringify({ a: [1, 2n.toString()] }));
  if (JSON.parse(await fs.readFile("a.json", "utf8")).a[1] !== "2") throw new Error("json");
  await pipeline(Readable.from(["a", "b"]), require("fs").createWriteStream("s.txt"));
  const server = http.createServer((q, r) => r.end("hello")).listen(0, "127.0.0.1");
  await new Promise((ok) => server.on("listening", ok));
  const text = await (await fetch(`http://127.0.0.1:${server.address().port}/`)).text();
  server.close();
  if (text !== "hello") throw new Error("fetch");
  const code = await new Promise((ok) => spawn("sh", ["-c", "exit 3"]).on("exit", ok));
  if (code !== 3 || os.cpus().length < 0 || os.tmpdir() === "") throw new Error("child");
  console.log("BENIGN-OK");
})().catch((e) => { console.error(e); process.exit(1); });
