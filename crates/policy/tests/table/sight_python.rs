//! Modules that go out of sight and come back under another name, in Python; each evasion was once let through.

use policy::Language::{self, Python};

/// Refused under guard, each by this rule among others.
pub(crate) const EVASIONS: &[(Language, &str, &str)] = &[
    (
        Python,
        "python.process.start",
        "import os\ndef f():\n    m = None\n    def g():\n        nonlocal m\n        m = os\n    g()\n    m.system('id')\nf()",
    ),
    (Python, "python.process.start", "import os\ndef f(m):\n    m.system('id')\nf(os)"),
    (Python, "python.process.start", "import os\ndef f(a, *, m=None):\n    m.system('id')\nf(1, m=os)"),
    (Python, "python.process.start", "import os\nf = lambda m: m.system('id')\nf(os)"),
    (Python, "python.process.start", "import os\nclass A:\n    def go(self, m):\n        m.system('id')\nA().go(os)"),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def __init__(self, m):\n        self.mod = m\n    def go(self):\n        self.mod.system('id')\nA(os).go()",
    ),
    (Python, "python.process.start", "import os\ndef f(*ms):\n    ms[0].system('id')\nf(os)"),
    (Python, "python.process.start", "import os\ndef f(**ms):\n    ms['m'].system('id')\nf(m=os)"),
    (Python, "python.process.start", "import os\ndef same(m):\n    return m\nsame(os).system('id')"),
    (Python, "python.process.start", "import os\nlist(map(lambda m: m.system('id'), [os]))"),
    (Python, "python.dynamic.call", "import os, functools\nfunctools.partial(getattr, os)('system')('id')"),
    (
        Python,
        "python.process.start",
        "import os\ntry:\n    raise ValueError(os)\nexcept ValueError as e:\n    e.args[0].system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import importlib.util\nimportlib.util.find_spec('os').loader.load_module('os').system('id')",
    ),
    (
        Python,
        "python.process.start",
        "from importlib.machinery import BuiltinImporter\nBuiltinImporter.load_module('posix').system('id')",
    ),
    (Python, "python.process.start", "import sys\nsys.meta_path[0].load_module('posix').system('id')"),
    (Python, "python.process.start", "__spec__.loader.load_module('os').system('id')"),
    (Python, "python.dynamic.call", "import os\ngetattr(os, 'sys-tem'.partition('-')[0] + 'tem')('id')"),
    (Python, "python.dynamic.call", "import os\ngetattr(os, 'metsys'.__getitem__(slice(None, None, -1)))('id')"),
    (Python, "python.dynamic.call", "import os\ngetattr(os, repr('system')[1:-1])('id')"),
    (Python, "python.dynamic.call", "import os\ngetattr(os, (126943972912493).to_bytes(6, 'big').decode())('id')"),
    (Python, "python.dynamic.call", "import os\ngetattr(os, chr(ord('r') + 1) + 'ystem')('id')"),
    (Python, "python.dynamic.call", "import os, string\ngetattr(os, string.ascii_lowercase[18] + 'ystem')('id')"),
    (Python, "python.dynamic.call", "import os, ast\ngetattr(os, ast.literal_eval(\"'system'\"))('id')"),
    (Python, "python.dynamic.call", "import os, json\ngetattr(os, json.loads('\"system\"'))('id')"),
    (
        Python,
        "python.dynamic.call",
        "import os\nfrom urllib.parse import unquote\ngetattr(os, unquote('%73ystem'))('id')",
    ),
    (Python, "python.dynamic.call", "import os, html\ngetattr(os, html.unescape('&#115;ystem'))('id')"),
    (Python, "python.dynamic.call", "import os, sys\ngetattr(os, sys.argv[1])(sys.argv[2])"),
    (Python, "python.dynamic.call", "import os\ngetattr(os, input())(input())"),
    (Python, "python.dynamic.call", "import os\n[getattr(os, n) for n in dir(os) if n.startswith('syst')][0]('id')"),
    (Python, "python.dynamic.call", "import os\n[v for k, v in vars(os).items() if k == 'system'][0]('id')"),
    (
        Python,
        "python.dynamic.call",
        "import os\nfor k, v in os.__dict__.items():\n    if k[:3] == 'sys' and len(k) == 6:\n        v('id')",
    ),
    (Python, "python.process.start", "import os, inspect\ndict(inspect.getmembers(os))['system']('id')"),
    (
        Python,
        "python.dynamic.call",
        "import builtins\ngetattr(builtins, [n for n in dir(builtins) if n[:2] == 'ev'][0])('1')",
    ),
    (Python, "python.dynamic.call", "import builtins\nx = input()\ngetattr(builtins, x)('1')"),
    (Python, "python.process.start", "import os, operator\noperator.itemgetter('system')(vars(os))('id')"),
    (Python, "python.process.start", "import os, collections\ncollections.ChainMap(vars(os))['system']('id')"),
    (Python, "python.process.start", "import os\n([os] * 2)[0].system('id')"),
    (Python, "python.process.start", "import os\nd = {}\nd.setdefault('m', os).system('id')"),
    (Python, "python.process.start", "import os\n{}.get('m', os).system('id')"),
    (Python, "python.process.start", "import os\ngetattr(object(), 'nope', os).system('id')"),
    (Python, "python.process.start", "import os\nnext(iter(()), os).system('id')"),
    (
        Python,
        "python.process.start",
        "import os, dataclasses\n@dataclasses.dataclass\nclass P:\n    m: object = dataclasses.field(default=os)\nP().m.system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os, dataclasses\n@dataclasses.dataclass\nclass P:\n    m: object = dataclasses.field(default_factory=lambda: os)\nP().m.system('id')",
    ),
    (Python, "python.process.start", "import os, enum\nclass E(enum.Enum):\n    A = os\nE.A.value.system('id')"),
    (
        Python,
        "python.process.start",
        "import os, contextvars\nv = contextvars.ContextVar('v', default=os)\nv.get().system('id')",
    ),
    (Python, "python.process.start", "import os, weakref\nweakref.ref(os)().system('id')"),
    (Python, "python.process.start", "import os, weakref\nweakref.proxy(os).system('id')"),
    (
        Python,
        "python.process.start",
        "import os, asyncio\nasync def m():\n    return os\nasyncio.run(m()).system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os, asyncio\nasync def m():\n    return os\nasync def go():\n    (await m()).system('id')\nasyncio.run(go())",
    ),
    (Python, "python.process.start", "import os\ndef g():\n    yield from [os]\nfor m in g():\n    m.system('id')"),
    (
        Python,
        "python.process.start",
        "import os\ndef g():\n    m = yield\n    m.system('id')\ni = g(); next(i); i.send(os)",
    ),
    (Python, "python.process.start", "import os\nfrom collections import deque\ndeque([os]).pop().system('id')"),
    (
        Python,
        "python.process.start",
        "import os, functools\nclass A:\n    @functools.cached_property\n    def m(self):\n        return os\nA().m.system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    @property\n    def m(self):\n        return os\nA().m.system('id')",
    ),
    (Python, "python.process.start", "import os\nclass A:\n    def m(self):\n        return os\nA().m().system('id')"),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    @classmethod\n    def m(cls):\n        return os\nA.m().system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def __getattr__(self, n):\n        return getattr(os, n)\nA().system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def __enter__(self):\n        return os\n    def __exit__(self, *a): pass\nwith A() as m:\n    m.system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def __iter__(self):\n        return iter([os])\nfor m in A():\n    m.system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def __call__(self):\n        return os\nA()().system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def __add__(self, o):\n        return os\n(A() + 1).system('id')",
    ),
    (Python, "python.process.start", "from asyncio import subprocess as sp\nsp.create_subprocess_shell('id')"),
    (
        Python,
        "python.process.start_method",
        "import asyncio\nloop = asyncio.new_event_loop()\nloop.subprocess_shell(None, 'id')",
    ),
    (Python, "python.process.start", "import os\n[(m := os) for _ in [0]]\nm.system('id')"),
    (
        Python,
        "python.process.start",
        "import os\nclass A:\n    def m(self): return os\nclass B(A):\n    def go(self): super().m().system('id')",
    ),
    (
        Python,
        "python.process.start",
        "import sys\n[m for m in sys.modules.values() if getattr(m, '__name__', '') == 'os'][0].system('id')",
    ),
    (Python, "python.code.object", "import runpy\nrunpy._run_code\nrunpy._run_module_code('import os')"),
    (Python, "python.code.object", "import zipimport\nzipimport.zipimporter('x.zip').load_module('evil')"),
    (Python, "python.file.system_write", "import os.path as p\nopen(p.join('/etc', 'passwd'), 'w')"),
    (Python, "python.file.system_write", "import os\nopen(os.path.expanduser('~/.bashrc'), 'a')"),
    (Python, "python.file.system_write", "from pathlib import Path\nPath.home().joinpath('.bashrc').write_text('x')"),
];

/// Not refused under guard.
pub(crate) const INNOCENTS: &[(Language, &str)] = &[
    (Python, "import os\ndef size(fs, path):\n    return fs.path.getsize(path)\nprint(size(os, 'x'))"),
    (
        Python,
        "def apply(f, *args, **kwargs):\n    return f(*args, **kwargs)\nprint(apply(max, 1, 2), apply(sorted, [3, 1], reverse=True))",
    ),
    (
        Python,
        "import os, sys\ndef dump(module, out=sys.stdout):\n    for name in dir(module):\n        if not name.startswith('_'):\n            print(name, file=out)\ndump(os.path)",
    ),
    (Python, "import os\nfor name in ('sep', 'linesep', 'name'):\n    print(name, getattr(os, name))"),
    (
        Python,
        "import os\ncpus = getattr(os, 'sched_getaffinity', None)\nprint(len(cpus(0)) if cpus else os.cpu_count())",
    ),
    (Python, "import signal\nnames = {v: k for k, v in vars(signal).items() if k.startswith('SIG')}\nprint(names)"),
    (
        Python,
        "import socket\nfamilies = {getattr(socket, n): n for n in dir(socket) if n.startswith('AF_')}\nprint(families)",
    ),
    (Python, "import builtins\nkeywords = [n for n in dir(builtins) if n.islower()]\nprint(keywords)"),
    (
        Python,
        "def counter():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n        return n\n    return inc\nprint(counter()())",
    ),
    (Python, "import importlib.util\nif importlib.util.find_spec('numpy') is None:\n    print('no numpy')"),
    (
        Python,
        "class Plugin:\n    registry = {}\n    def __init_subclass__(cls, **kw):\n        super().__init_subclass__(**kw)\n        Plugin.registry[cls.__name__] = cls\nclass A(Plugin):\n    def run(self): return 1\nprint(Plugin.registry['A']().run())",
    ),
    (
        Python,
        "from unittest import mock\nimport os\nwith mock.patch.object(os, 'getcwd', return_value='/x'):\n    print(os.getcwd())",
    ),
    (
        Python,
        "import operator\nrows = [{'a': 2}, {'a': 1}]\nprint(sorted(rows, key=operator.itemgetter('a')), operator.attrgetter('real')(1))",
    ),
    (Python, "import contextlib, io\nbuf = io.StringIO()\nwith contextlib.redirect_stdout(buf):\n    print('eval(1)')"),
    (
        Python,
        "class Vec:\n    def __init__(self, x): self.x = x\n    def __add__(self, o): return Vec(self.x + o.x)\n    def __getattr__(self, n): return getattr(self.x, n)\nprint((Vec(1) + Vec(2)).x, Vec(1).real)",
    ),
    (
        Python,
        "import enum\nclass Op(enum.Enum):\n    EXEC = 'exec'\n    EVAL = 'eval'\nprint(Op.EXEC.value, Op['EVAL'].name)",
    ),
    (Python, "import string, random\nprint(''.join(random.choice(string.ascii_lowercase) for _ in range(8)))"),
    (
        Python,
        "import json\ncfg = json.loads('{\"system\": \"linux\", \"exec\": \"fast\"}')\nprint(cfg['system'], cfg.get('exec'))",
    ),
    (
        Python,
        "import asyncio\nasync def fetch(n):\n    await asyncio.sleep(0)\n    return n\nasync def main():\n    print(await asyncio.gather(*(fetch(i) for i in range(3))))\nasyncio.run(main())",
    ),
    (
        Python,
        "from pathlib import Path\nfor p in sorted(Path('.').glob('**/*.py')):\n    print(p, p.stat().st_size)\n(Path('out') / 'x.txt').parent.mkdir(parents=True, exist_ok=True)",
    ),
    (
        Python,
        "from pathlib import Path\ncfg = Path.home() / '.config' / 'x.toml'\nprint(cfg.read_text() if cfg.exists() else '')",
    ),
    (Python, "import os\nprint(os.path.expanduser('~/x'), open(os.path.join('/etc', 'hosts')).read())"),
    (Python, "import os\nos.chdir('/work')\nopen('result.txt', 'w').write('x')"),
    (
        Python,
        "def evaluate(env, policy):\n    total = 0\n    while True:\n        obs, reward, done = env.step(policy(env))\n        total += reward\n        if done:\n            return total",
    ),
    (
        Python,
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--exec', dest='exec_')\nns = p.parse_args([])\nprint(getattr(ns, 'exec_'), vars(ns))",
    ),
    (Python, "import queue\nq = queue.Queue()\nq.put(('system', 1))\nkind, n = q.get()\nprint(kind, n)"),
    (Python, "import weakref\nclass N: pass\nn = N(); r = weakref.ref(n)\nprint(r() is n)"),
    (Python, "import sys\nmods = [m for m in sys.modules.values() if m is not None]\nprint(len(mods))"),
    (
        Python,
        "HANDLERS = {'add': lambda a, b: a + b, 'system': lambda a, b: 0}\ndef dispatch(name, *args):\n    return HANDLERS[name](*args)\nprint(dispatch('add', 1, 2), dispatch('system', 1, 2))",
    ),
    (
        Python,
        "import numpy as np\ndef op(mod, name, x):\n    return getattr(mod, name)(x)\nprint(op(np, 'sin', 1.0), getattr(np, 'cos')(0))",
    ),
    (Python, "import math\nfor f in ('sin', 'cos'):\n    print(getattr(math, f)(1))"),
];
