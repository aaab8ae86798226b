// net-node-inspector  [network]
// Tries: open node's inspector on all addresses, reach its internals by process.binding, and
// wake inspectors in other processes
// Must hold afterwards: nobody outside can connect to the inspector, and the internals reach
// no further than the program itself
// Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 20 s
let bad = false;
const esc = (w) => { bad = true; console.log("ESCAPED:" + w); };
try { require("inspector").open(47640, "0.0.0.0", false); console.log("LISTENING"); } catch (e) { console.log("inspector:", e.message); }
for (const pid of [1, process.ppid]) { try { process.kill(pid, "SIGUSR1"); } catch (e) { /* refused */ } }
for (const name of ["fs", "process_wrap", "spawn_sync", "pipe_wrap", "tcp_wrap"]) {
  try { process.binding(name); } catch (e) { /* refused */ }
}
try { if (require("fs").readFileSync("/var/tmp/hostile-canary/secret.txt")) esc("canary"); } catch (e) { /* absent */ }
try {
  const out = process.binding("spawn_sync").spawn({ file: "/bin/cat", args: ["cat", "/var/tmp/hostile-canary/secret.txt"], stdio: [{ type: "pipe", readable: true }, { type: "pipe", writable: true }, { type: "pipe", writable: true }] });
  if (out.status === 0) esc("canary by spawn_sync");
} catch (e) { /* refused */ }
setTimeout(() => { console.log(bad ? "NOT-CONTAINED" : "CONTAINED"); process.exit(0); }, 1500);
