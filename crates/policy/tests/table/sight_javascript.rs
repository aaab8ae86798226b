//! Modules that go out of sight and come back under another name, in JavaScript; each evasion was once let through.

use policy::Language::{self, JavaScript, TypeScript};

/// Refused under guard, each by this rule among others.
pub(crate) const EVASIONS: &[(Language, &str, &str)] = &[
    (JavaScript, "javascript.process.start", "function f(m) { m.exec('id') }\nf(require('child_process'))"),
    (JavaScript, "javascript.process.start", "const f = m => m.exec('id')\nf(require('child_process'))"),
    (
        JavaScript,
        "javascript.process.start",
        "class A { go(m) { m.exec('id') } }\nnew A().go(require('child_process'))",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "class A { constructor(m) { this.mm = m } go() { this.mm.exec('id') } }\nnew A(require('child_process')).go()",
    ),
    (JavaScript, "javascript.process.start", "const id = x => x\nid(require('child_process')).exec('id')"),
    (JavaScript, "javascript.process.start", "['child_process'].map(require)[0].exec('id')"),
    (JavaScript, "javascript.process.start", "['child_process'].map(n => require(n))[0].exec('id')"),
    (
        JavaScript,
        "javascript.dynamic.call",
        "const c = require('child_process')\nObject.getOwnPropertyNames(c).filter(n => n === 'exec').forEach(n => c[n]('id'))",
    ),
    (
        JavaScript,
        "javascript.dynamic.call",
        "const c = require('child_process')\nfor (const [k, v] of Object.entries(c)) if (k === 'exec') v('id')",
    ),
    (JavaScript, "javascript.dynamic.call", "Object.values(require('child_process'))[3]('id')"),
    (JavaScript, "javascript.dynamic.call", "const c = require('child_process')\nc[Object.keys(c)[3]]('id')"),
    (JavaScript, "javascript.dynamic.call", "require('child_process')[process.argv[2]]('id')"),
    (
        JavaScript,
        "javascript.dynamic.call",
        "const c = require('child_process')\nfor (const k in c) if (k == 'ex' + 'ec') c[k]('id')",
    ),
    (JavaScript, "javascript.process.start", "require([...'ssecorp_dlihc'].reverse().join('')).exec('id')"),
    (JavaScript, "javascript.process.start", "require('child-process'.split('-').join('_')).exec('id')"),
    (JavaScript, "javascript.process.start", "require('child_proces'.padEnd(13, 's')).exec('id')"),
    (
        JavaScript,
        "javascript.process.start",
        "require(String.fromCharCode.apply(null, [99,104,105,108,100]) + '_process').exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "require(Buffer.from([99,104,105,108,100,95,112,114,111,99,101,115,115]).toString()).exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "require(new TextDecoder().decode(new Uint8Array([99,104,105,108,100,95,112,114,111,99,101,115,115]))).exec('id')",
    ),
    (JavaScript, "javascript.process.start", "require(JSON.parse('\"child_process\"')).exec('id')"),
    (JavaScript, "javascript.process.start", "require(process.argv[2]).exec('id')"),
    (JavaScript, "javascript.process.start", "require('module').prototype.require('child_process').exec('id')"),
    (
        JavaScript,
        "javascript.process.start",
        "module.constructor.prototype.require.call(module, 'child_process').exec('id')",
    ),
    (JavaScript, "javascript.process.start", "new Proxy(require('child_process'), {}).exec('id')"),
    (JavaScript, "javascript.process.start", "new WeakRef(require('child_process')).deref().exec('id')"),
    (JavaScript, "javascript.process.start", "Promise.all([import('child_process')]).then(([c]) => c.exec('id'))"),
    (
        JavaScript,
        "javascript.process.start",
        "const [c] = await Promise.all([import('node:child_process')])\nc.exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "function* g() { yield require('child_process') }\nfor (const c of g()) c.exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "function* g() { yield require('child_process') }\ng().next().value.exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "const o = { *[Symbol.iterator]() { yield require('child_process') } }\nconst [c] = o\nc.exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "const o = { get c() { return require('child_process') } }\no.c.exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "const o = {}\nObject.defineProperty(o, 'c', { value: require('child_process') })\no.c.exec('id')",
    ),
    (
        JavaScript,
        "javascript.process.start",
        "const o = {}\nObject.defineProperty(o, 'c', { get: () => require('child_process') })\no.c.exec('id')",
    ),
    (JavaScript, "javascript.process.start", "Object.fromEntries([['c', require('child_process')]]).c.exec('id')"),
    (JavaScript, "javascript.process.start", "Array.from([require('child_process')])[0].exec('id')"),
    (JavaScript, "javascript.process.start", "Array.of(require('child_process'))[0].exec('id')"),
    (JavaScript, "javascript.process.start", "[].concat(require('child_process'))[0].exec('id')"),
    (JavaScript, "javascript.process.start", "[require('child_process')].slice(0)[0].exec('id')"),
    (JavaScript, "javascript.process.start", "[[require('child_process')]].flat()[0].exec('id')"),
    (JavaScript, "javascript.process.start", "const [c] = [...[require('child_process')]]\nc.exec('id')"),
    (JavaScript, "javascript.process.start", "[require('child_process')].find(x => x).exec('id')"),
    (JavaScript, "javascript.process.start", "[require('child_process')].reduce((a, b) => b, null).exec('id')"),
    (JavaScript, "javascript.process.start", "(function () { arguments[0].exec('id') })(require('child_process'))"),
    (JavaScript, "javascript.process.start", "((...a) => a[0].exec('id'))(require('child_process'))"),
    (
        JavaScript,
        "javascript.process.start",
        "const o = Object.setPrototypeOf({}, require('child_process'))\no.exec('id')",
    ),
    (JavaScript, "javascript.process.start", "const o = { __proto__: require('child_process') }\no.exec('id')"),
    (JavaScript, "javascript.process.start", "module.exports = require('child_process')\nmodule.exports.exec('id')"),
    (JavaScript, "javascript.process.start", "globalThis.c = require('child_process')\nc.exec('id')"),
    (JavaScript, "javascript.process.start", "var self = this\nself.c = require('child_process')\nc.exec('id')"),
    (JavaScript, "javascript.process.start", "x: { var c = require('child_process'); break x }\nc.exec('id')"),
    (JavaScript, "javascript.process.start", "switch (1) { case 1: var c = require('child_process') }\nc.exec('id')"),
    (JavaScript, "javascript.process.start", "try { throw require('child_process') } catch (c) { c.exec('id') }"),
    (
        JavaScript,
        "javascript.process.start",
        "try { throw { c: require('child_process') } } catch ({ c }) { c.exec('id') }",
    ),
    (JavaScript, "javascript.process.start", "const t = (s, m) => m.exec('id')\nt`x${require('child_process')}`"),
    (JavaScript, "javascript.process.start", "setTimeout(c => c.exec('id'), 1, require('child_process'))"),
    (JavaScript, "javascript.code.text", "import('data:text/javascript,console.log(1)')"),
    (JavaScript, "javascript.process.start", "require('cluster').fork()\nwhile (true) require('cluster').fork()"),
    (JavaScript, "javascript.file.remove_tree", "require('fs').rmdirSync('/', { recursive: true })"),
    (
        JavaScript,
        "javascript.file.system_write",
        "const fs = require('fs'); fs.writeSync(fs.openSync('/etc/passwd', 'w'), 'x')",
    ),
    (
        TypeScript,
        "javascript.process.start",
        "function f(m: typeof import('child_process')) { m.exec('id') }\nf(require('child_process'))",
    ),
    (
        TypeScript,
        "javascript.process.start",
        "namespace A { export const c = require('child_process') }\nA.c.exec('id')",
    ),
    (TypeScript, "javascript.process.start", "import cp = require('child_process')\nimport run = cp.exec\nrun('id')"),
    (
        TypeScript,
        "javascript.process.start",
        "class A { constructor(private m: any) {} go() { this.m.exec('id') } }\nnew A(require('child_process')).go()",
    ),
    (
        TypeScript,
        "javascript.process.start",
        "const d = (m: any) => (t: any) => m.exec('id')\n@d(require('child_process')) class A {}",
    ),
];

/// Not refused under guard.
pub(crate) const INNOCENTS: &[(Language, &str)] = &[
    (JavaScript, "function size(fs, p) { return fs.statSync(p).size }\nconsole.log(size(require('fs'), 'x'))"),
    (JavaScript, "const run = (f, ...args) => f(...args)\nconsole.log(run(Math.max, 1, 2))"),
    (JavaScript, "const c = { exec: x => x }\nfor (const [k, v] of Object.entries(c)) console.log(k, v(1))"),
    (JavaScript, "const mods = ['path', 'os'].map(n => require(n)); console.log(mods[0].sep)"),
    (JavaScript, "for (const k of Object.keys(require('os').constants.signals)) console.log(k)"),
    (JavaScript, "const handlers = new Map(); handlers.set('exec', () => 1); handlers.get('exec')()"),
    (JavaScript, "console.log([...'abc'].reverse().join(''), 'a-b'.split('-').join('_'), 'x'.padEnd(3, 'y'))"),
    (
        JavaScript,
        "class Shape { constructor(n) { this.n = n } clone() { return new this.constructor(this.n) } }\nconsole.log(new Shape(1).clone().n)",
    ),
    (JavaScript, "const p = new Proxy({}, { get: (t, k) => k }); console.log(p.exec, p.eval)"),
    (JavaScript, "Promise.all([import('./a.js'), import('node:path')]).then(([a, p]) => console.log(a.run(), p.sep))"),
    (JavaScript, "const { parse } = JSON; console.log(parse('\"exec\"'), JSON.stringify({ eval: 1 }))"),
    (
        JavaScript,
        "import { readFile, writeFile } from 'node:fs/promises'\nawait writeFile('out.txt', (await readFile('/etc/hosts', 'utf8')).toUpperCase())",
    ),
    (
        JavaScript,
        "const fs = require('fs'); const fd = fs.openSync('out.txt', 'w'); fs.writeSync(fd, 'x'); fs.closeSync(fd)",
    ),
    (TypeScript, "const get = <T, K extends keyof T>(o: T, k: K): T[K] => o[k]\nconsole.log(get({ exec: 1 }, 'exec'))"),
    (
        TypeScript,
        "class Repo { constructor(private readonly db: { exec(s: string): void }) {} go() { this.db.exec('select 1') } }",
    ),
];
