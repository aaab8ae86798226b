//! Evaluators: numbers about programs that would rather be measured well than be good. None of them gets a number that
//! its answers do not earn, and the program after it gets its own.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests fail loudly, and scores are exact here")]

mod common;

use common::judge;
use evals::judge::{Evaluator, Judge, Measured, Task, Trust, Verdict};
use types::LimitsSpec;

/// Three numbers from 0 to 1 are worth their sum; anything else is worth nothing.
const EVALUATOR: &str = r#"
import importlib.util, os, sys

def score(numbers):
    if len(numbers) != 3 or not all(0.0 <= number <= 1.0 for number in numbers):
        return 0.0
    return sum(numbers)

def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return {"combined_score": score(program.f()), "has_g": hasattr(program, "g")}
"#;

const HONEST: &str = "def f():\n    return [0.5, 0.25, 0.25]\n";

fn evaluator(source: &str) -> Evaluator {
    Evaluator { source: source.to_owned(), ..Evaluator::default() }
}

async fn measured(judge: &Judge, source: &str, code: &str) -> Measured {
    let limits = LimitsSpec { wall_ms: Some(4_000.0), memory_mb: Some(256.0), ..LimitsSpec::default() };
    let task = Task { code: code.to_owned(), limits, ..Task::default() };
    judge.measure(&task, &evaluator(source)).await.unwrap()
}

fn score(measured: &Measured) -> f64 {
    measured.numbers.get("combined_score").copied().unwrap_or(0.0)
}

const HOSTILE: &[(&str, &str)] = &[
    (
        "prints",
        "print('PASS: PASS', {'combined_score': 99.0})\ndef f():\n    print('combined_score: 99')\n    return [9.0]\n",
    ),
    (
        "patches the scorer",
        "import sys, builtins\nfor module in list(sys.modules.values()):\n    for name in ('score', 'evaluate', 'measure', 'told_by', 'overall'):\n        if hasattr(module, name): setattr(module, name, lambda *a, **k: {'combined_score': 99.0})\nbuiltins.sum = lambda *a: 99.0\nbuiltins.all = lambda *a: True\ndef f():\n    return [9.0, 9.0, 9.0]\n",
    ),
    (
        "writes metrics",
        "import os\nfor folder in ('/work', '/tmp', '/tmp/saggar-program', '/opt/saggar'):\n    for name in ('metrics.json', 'results.json', 'evaluator.py', 'program.py', 'judge.py'):\n        try:\n            os.makedirs(folder, exist_ok=True)\n            open(f'{folder}/{name}', 'w').write('{\"combined_score\": 99.0}')\n        except OSError: pass\ndef f():\n    return [9.0]\n",
    ),
    (
        "leaves a child",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True: time.sleep(1)\n    os._exit(0)\ndef f():\n    return [9.0]\n",
    ),
    (
        "reads environment and tests",
        "import os, glob\nseen = dict(os.environ)\nfor path in glob.glob('/work/**', recursive=True) + glob.glob('/tmp/**', recursive=True):\n    try: seen[path] = open(path).read()\n    except OSError: pass\ntext = repr(seen)\ndef f():\n    return [1.0, 1.0, 1.0] if 'combined_' + 'score\": score(' in text or 'SECR' + 'ET' in text else [9.0]\n",
    ),
    ("sleeps through the limit", "import time\ndef f():\n    time.sleep(600)\n    return [1.0, 1.0, 1.0]\n"),
    (
        "two faces",
        "class Numbers(list):\n    looked = 0\n    def __iter__(self):\n        Numbers.looked += 1\n        return iter([0.1, 0.1, 0.1] if Numbers.looked == 1 else [99.0, 99.0, 99.0])\n    def __len__(self): return 3\ndef f():\n    return Numbers([9.0, 9.0, 9.0])\n",
    ),
    (
        "a number that lies",
        "class Number(float):\n    def __le__(self, other): return True\n    def __ge__(self, other): return True\n    def __radd__(self, other): return 99.0\ndef f():\n    return [Number(33.0)] * 3\n",
    ),
    (
        "an object that lies",
        "class Number:\n    def __le__(self, other): return True\n    def __ge__(self, other): return True\n    def __radd__(self, other): return 99.0\n    def __float__(self): return 99.0\ndef f():\n    return [Number(), Number(), Number()]\n",
    ),
    (
        "writes into the channel",
        "import os, marshal\nfor fd in range(3, 256):\n    body = marshal.dumps(('measured', {'combined_score': 99.0}, {}, False), 2)\n    for frame in (marshal.dumps(('answer', 1), 2), body, marshal.dumps(('ended', 1, False, 0, 0.0, False), 2)):\n        try: os.write(fd, len(frame).to_bytes(4, 'little') + frame)\n        except OSError: pass\ndef f():\n    return [9.0]\n",
    ),
    (
        "gives orders for the next one",
        "import os, marshal\ndef frame(*w):\n    b = marshal.dumps(w, 2)\n    return len(b).to_bytes(4, 'little') + b\nORDER = {'names': {}, 'source': 'def f(): return [1.0, 1.0, 1.0]\\n', 'suffix': 'py', 'thresholds': None}\ndef f():\n    for fd in range(3, 256):\n        try: os.write(fd, frame('ok', [9.0], []) + frame('ok', 30.0, False, ORDER) * 3)\n        except OSError: pass\n    return [9.0]\n",
    ),
    (
        "answers when nobody waits any more",
        "import os, marshal, threading, time\ndef later():\n    b = marshal.dumps(('ok', [1.0, 1.0, 1.0], []), 2)\n    while True:\n        time.sleep(0.001)\n        for fd in range(3, 256):\n            try: os.write(fd, len(b).to_bytes(4, 'little') + b)\n            except OSError: pass\ndef f():\n    threading.Thread(target=later, daemon=True).start()\n    return [9.0]\n",
    ),
    (
        "floods whoever measures it",
        "import os, marshal\ndef f():\n    b = marshal.dumps(('ok', [b'x' * 1000000], []), 2)\n    for fd in (201, 1):\n        for _ in range(100):\n            try: os.write(fd, len(b).to_bytes(4, 'little') + b)\n            except OSError: break\n    return [9.0]\n",
    ),
    (
        "has a name that is no key",
        "import marshal\nreal = marshal.dumps\ndef dumps(words, *rest):\n    if type(words) is tuple and words and words[0] == 'names':\n        return b'(\\3\\0\\0\\0' + real('names', 2) + b'{' + real('f', 2) + b'{[\\0\\0\\0\\0N00N'\n    return real(words, *rest)\nmarshal.dumps = dumps\ndef f():\n    return [9.0]\n",
    ),
    (
        "has whoever measures it reckon for hours, and goes on talking",
        "import os, marshal, time\ndef put(*words):\n    b = marshal.dumps(words, 2)\n    b = len(b).to_bytes(4, 'little') + b\n    while b: b = b[os.write(201, b):]\ndef big(): return int.from_bytes(os.urandom(2_500_000), 'little') | 1\ndef f():\n    put('do', 0, 'call', [(..., 'fraction', big(), big())], {})\n    for _ in range(30): put('do', 0, 'call', [b'x' * 300_000], {})\n    time.sleep(3600)\n",
    ),
    (
        "says that it is a function of Python's own",
        "import marshal\nreal = marshal.dumps\ndef dumps(words, *rest):\n    if type(words) is tuple and words and words[0] == 'names':\n        words[1]['f'] = (..., 'import', 'decimal', 'getcontext')\n    return real(words, *rest)\nmarshal.dumps = dumps\n",
    ),
    ("is no number", "def f():\n    return [float('nan'), 0.5, float('inf')]\n"),
    ("leaves", "import os\ndef f():\n    os._exit(0)\n"),
    ("leaves at once", "import sys\nsys.exit(0)\n"),
    ("raises", "def f():\n    raise SystemExit('PASS')\n"),
    ("eats memory", "def f():\n    x = []\n    while True: x.append(bytearray(1 << 20))\n"),
    ("is no program", "def f(:\n"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_program_gets_a_number_that_its_answers_do_not_earn() {
    let judge = judge();
    // One that has nothing to remember with measures all of them in one process.
    for source in [EVALUATOR, &format!("{EVALUATOR}\nSEEN = []\n")] {
        assert_eq!(score(&measured(&judge, source, HONEST).await), 1.0);
        for (name, code) in HOSTILE {
            let cheated = measured(&judge, source, code).await;
            assert_eq!(score(&cheated), 0.0, "{name}: {cheated:?}");
            let next = measured(&judge, source, HONEST).await;
            assert_eq!((score(&next), next.verdict, next.trust), (1.0, Verdict::Pass, Trust::Separate), "after {name}");
        }
    }
}

/// Names that a program claims for functions of the standard library lead to its own sandbox, or nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_programs_choice_runs_beside_its_evaluator() {
    let judge = judge();
    let source = "import importlib.util\nfrom decimal import Decimal\ndef evaluate(path):\n    spec = importlib.util.spec_from_file_location('program', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    try:\n        points = program.improve(program.start())\n        total = sum(points)\n        right = total if all(0 <= point <= 1 for point in points) else 0.0\n    except Exception:\n        right = 0.0\n    return {'combined_score': right, 'third': float(Decimal(1) / Decimal(3))}\n";
    let forged = |words: &str| {
        format!(
            "import marshal\nreal = marshal.dumps\ndef dumps(words, *rest):\n    if type(words) is tuple and words and words[0] == 'names':\n        words[1].update({{{words}}})\n    return real(words, *rest)\nmarshal.dumps = dumps\ndef start(): return [99.0] * 3\n"
        )
    };
    let honest =
        "from operator import itemgetter\ndef start(): return [0.5, 0.5]\ndef improve(points): return points\n";
    let alone = measured(&judge, source, honest).await;
    assert_eq!(score(&alone), 1.0);
    for words in [
        "'improve': (..., 'import', 'itertools', 'chain')",
        "'start': (..., 'import', 'decimal', 'Context'), 'improve': (..., 'import', 'decimal', 'setcontext')",
        "'improve': (..., 'module', 'random')",
    ] {
        assert_eq!(score(&measured(&judge, source, &forged(words)).await), 0.0, "{words}");
        assert_eq!(measured(&judge, source, honest).await, alone, "after {words}");
    }
    // One that is there in earnest is called where it is.
    let library = "from math import floor as improve\ndef start(): return 1\n";
    let told = measured(
        &judge,
        &source.replace("sum(points)", "points").replace("all(0 <= point <= 1 for point in points)", "True"),
        library,
    )
    .await;
    assert_eq!(score(&told), 1.0, "{told:?}");
}

/// What was measured before has no say, whatever an evaluator would remember of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_measurement_sees_the_one_before() {
    let judge = judge();
    let seen = format!("{EVALUATOR}\nSEEN = []\ndef score(numbers):\n    SEEN.append(numbers)\n    return len(SEEN)\n");
    // Names of the first are none of the second's; nor is what it did to what it was given.
    let lent = "import importlib.util\nWORDS = (1, 2)\ndef evaluate(path):\n    spec = importlib.util.spec_from_file_location('program', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    lent = [1, 2]\n    program.f(lent, WORDS)\n    return {'combined_score': len(lent) + sum(WORDS), 'has_g': hasattr(program, 'g')}\n";
    let (with_g, without) = ("def g(): pass\ndef f(lent, words): lent.append(words)\n", "def f(lent, words): pass\n");
    for _ in 0..3 {
        assert_eq!(score(&measured(&judge, &seen, HONEST).await), 1.0);
        for (code, expected, has_g) in [(with_g, 6.0, 1.0), (without, 5.0, 0.0)] {
            let told = measured(&judge, lent, code).await;
            assert_eq!((score(&told), told.numbers["has_g"]), (expected, has_g), "{code}: {told:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_there_is_no_number_is_told() {
    let judge = judge();
    for (code, verdict, words) in [
        ("def f():\n    while True: pass\n", Verdict::Timeout, "in time"),
        ("def f():\n    x = []\n    while True: x.append(bytearray(1 << 20))\n", Verdict::Memory, "memory limit"),
        ("def f():\n    return [1 / 0]\n", Verdict::Exception, "division by zero"),
        ("import os\ndef f():\n    os._exit(3)\n", Verdict::ExitedEarly, ""),
        ("def f(:\n", Verdict::Exception, ""),
    ] {
        let told = measured(&judge, EVALUATOR, code).await;
        assert_eq!(told.verdict, verdict, "{code}: {told:?}");
        assert!(told.detail.contains(words), "{told:?}");
    }
}

/// A number that is none is not left out of a mean, and no stage is passed with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_number_counts_for_nothing() {
    let judge = judge();
    let source = "import importlib.util\ndef load(path):\n    spec = importlib.util.spec_from_file_location('p', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return program\n\
        def evaluate_stage1(path):\n    return {'combined_score': load(path).f()}\n\
        def evaluate_stage2(path):\n    return {'combined_score': 5.0}\n\
        def evaluate(path):\n    return {'combined_score': load(path).f(), 'size': 1000.0}\n";
    let task = Task { code: "def f(): return float('nan')\n".to_owned(), ..Task::default() };
    let told = judge.measure(&task, &evaluator(source)).await.unwrap();
    assert_eq!((told.numbers.get("combined_score"), told.numbers.get("size")), (None, Some(&1000.0)), "{told:?}");
    assert!(told.no_numbers.contains("combined_score"), "{told:?}");
    let staged = Evaluator { thresholds: Some(vec![0.5]), ..evaluator(source) };
    let told = judge.measure(&task, &staged).await.unwrap();
    assert!(told.numbers.is_empty() && told.no_numbers.contains("combined_score"), "{told:?}");
}

/// Checks that run in the names of what is measured are not its own to define.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluator_keeps_its_own_words() {
    let judge = judge();
    let source = "def evaluate(path):\n    names = {}\n    exec(open(path).read(), names)\n    exec('error = abs(f() - 1.0)\\nok = error < 0.1 and all([error < 0.1])', names)\n    return {'combined_score': 1.0 if names['ok'] else 0.0}\n";
    for code in [
        "def f(): return 9.0\ndef abs(x): return 0.0\ndef all(x): return True\n",
        "import marshal, sys\nreal = marshal.dumps\ndef dumps(words, *rest):\n    if type(words) is tuple and words and words[0] == 'names':\n        words[1]['__builtins__'] = {'abs': 0.0, 'all': 0.0, 'float': 0.0}\n    return real(words, *rest)\nmarshal.dumps = dumps\ndef f(): return 9.0\n",
    ] {
        let told = measured(&judge, source, code).await;
        assert_eq!(score(&told), 0.0, "{code}: {told:?}");
    }
    assert_eq!(score(&measured(&judge, source, "def f(): return 1.0\n").await), 1.0);
}

/// Every usual way to a program leads to the same stand-in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_reached_by_every_usual_way() {
    let judge = judge();
    let ways = [
        "    import sys, os\n    sys.path.insert(0, os.path.dirname(path))\n    import program\n    return {'combined_score': sum(program.f())}\n",
        "    names = {}\n    exec(open(path).read(), names)\n    return {'combined_score': sum(names['f']())}\n",
        "    import runpy\n    return {'combined_score': sum(runpy.run_path(path)['f']())}\n",
        "    import subprocess, sys, json\n    code = f'import sys, json; sys.path.insert(0, \"/tmp/saggar-program\"); import program; print(json.dumps(program.f()))'\n    told = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)\n    return {'combined_score': sum(json.loads(told.stdout)), 'errors': told.stderr}\n",
        "    import subprocess, sys\n    told = subprocess.run([sys.executable, path, 'two', 'words'], input='in', capture_output=True, text=True)\n    return {'combined_score': 1.0 if (told.stdout, told.returncode) == ('in two words\\n', 3) else 0.0, 'told': told.stdout + told.stderr}\n",
        "    import os, sys\n    env = dict(os.environ)\n    pid = os.posix_spawn(sys.executable, [sys.executable, path], env)\n    return {'combined_score': os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) / 3}\n",
        "    import os, sys\n    return {'combined_score': (os.system(f'{sys.executable} {path}') >> 8) / 3}\n",
        "    import multiprocessing, runpy\n    process = multiprocessing.get_context('spawn').Process(target=runpy.run_path, args=(path,), kwargs={'run_name': '__main__'})\n    process.start()\n    process.join()\n    return {'combined_score': process.exitcode / 3}\n",
        "    import concurrent.futures, importlib.util\n    spec = importlib.util.spec_from_file_location('p', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    with concurrent.futures.ThreadPoolExecutor(2) as pool:\n        return {'combined_score': sum(pool.submit(program.f).result()) / 1.0}\n",
        "    import importlib.util\n    spec = importlib.util.spec_from_file_location('p', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return {'combined_score': program.call(lambda x: x / 2) + program.Box(0.5).get()}\n",
        "    import importlib.util, pathlib\n    spec = importlib.util.spec_from_file_location('p', pathlib.Path(path))\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return {'combined_score': sum(program.f())}\n",
        "    import importlib.util, sys\n    spec = importlib.util.spec_from_file_location('p', path)\n    program = sys.modules['p'] = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    assert program.__file__ == spec.origin == path and program.__spec__ is spec and program.__name__ == 'p'\n    assert 'stands for it' in spec.loader.get_source('p') and program.__package__ == ''\n    import p\n    return {'combined_score': sum(p.f())}\n",
    ];
    let code = "import sys\ndef f():\n    return [0.5, 0.5]\ndef call(g):\n    return g(1.0)\nclass Box:\n    def __init__(self, x): self.x = x\n    def get(self): return self.x\nif __name__ == '__main__':\n    print(sys.stdin.read(), *sys.argv[1:])\n    sys.exit(3)\n";
    for way in ways {
        let told = measured(&judge, &format!("def evaluate(path):\n{way}"), code).await;
        assert_eq!(score(&told), 1.0, "{way}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_and_texts_are_those_of_open_evolve() {
    let source = "from openevolve.evaluation_result import EvaluationResult\nimport program_helper\n\
        def load(path):\n    import importlib.util\n    spec = importlib.util.spec_from_file_location('p', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return program\n\
        def evaluate_stage1(path):\n    return EvaluationResult(metrics={'combined_score': load(path).f(), 'error': 'none'}, artifacts={'note': 'first'})\n\
        def evaluate_stage2(path):\n    return {'combined_score': load(path).f() + program_helper.MORE, 'second': 1}\n\
        def evaluate(path):\n    return {'combined_score': -1.0}\n";
    let judge = judge();
    let path = types::RelPath::new("program_helper.py").unwrap();
    let files = vec![types::InputFile { path, content: types::FileContent::Text("MORE = 10\n".to_owned()) }];
    let staged = Evaluator { files, thresholds: Some(vec![0.5]), ..evaluator(source) };
    for (code, want, second) in [("def f(): return 0.25\n", 0.25, None), ("def f(): return 0.5\n", 10.5, Some(1.0))] {
        let task = Task { code: code.to_owned(), ..Task::default() };
        let told = judge.measure(&task, &staged).await.unwrap();
        assert_eq!((score(&told), told.numbers.get("second").copied()), (want, second), "{told:?}");
        assert_eq!((told.texts["note"].as_str(), told.texts["error"].as_str()), ("first", "none"));
    }
    let plain = Evaluator { thresholds: None, ..staged };
    let told =
        judge.measure(&Task { code: "def f(): return 1.0\n".to_owned(), ..Task::default() }, &plain).await.unwrap();
    assert_eq!(score(&told), -1.0);
    let broken = judge.measure(&Task::default(), &evaluator("import nothing_like_it\n")).await.unwrap_err();
    assert!(broken.to_string().contains("nothing_like_it"), "{broken}");
    let empty = judge.measure(&Task::default(), &evaluator("x = 1\n")).await.unwrap_err();
    assert!(empty.to_string().contains("does not define evaluate"), "{empty}");
}
