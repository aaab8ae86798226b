//! Workers that wait: the same walls as a cold run, the run's own limits, nothing of the run before.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{bash, children, is_zygote, python, settings, settle};
use engine::{Caller, Delivery, Engine, PoolSettings, RunError, Settings};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use types::{ExecRequest, ExecResult, InputFile, LimitKind, LimitsSpec, Outcome, RelPath, Start};

/// Tests that look at this process's children take turns.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn warm(settings: Settings) -> Arc<Engine> {
    Arc::new(Engine::open(settings).unwrap().with_pool())
}

async fn run(engine: &Engine, request: ExecRequest) -> ExecResult {
    engine.execute(&Caller::default(), request, Delivery::default()).await.unwrap()
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn zygotes() -> Vec<u32> {
    children(std::process::id()).into_iter().flat_map(children).filter(|pid| is_zygote(*pid)).collect()
}

/// Lets the engine work until `done`; the deadline is for a broken build, not for a slow machine.
async fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not happen");
        tokio::task::yield_now().await;
    }
}

/// Kills a process and waits until it is dead, reaped or not.
fn kill(pid: u32) {
    // One that is dead already is as good.
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
    let lives = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    settle(|| !lives(), "killed processes");
}

#[test]
fn no_page_of_a_worker_is_both_writable_and_executable() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        let code = "print([line for line in open('/proc/self/maps') if {'w', 'x'} <= set(line.split()[1])])";
        let result = run(&engine, python(code)).await;
        assert_eq!((result.start, result.stdout.as_str()), (Start::Warm, "[]\n"));
    });
}

#[test]
fn every_language_runs_warm_within_the_walls_of_a_cold_run() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        for (language, code) in
            [("python", "print(6 * 7)"), ("node", "console.log(6 * 7)"), ("bash", "echo $((6 * 7))")]
        {
            let request = || ExecRequest { language: Some(language.to_owned()), ..python(code) };
            let cold = run(&engine, ExecRequest { cold: true, ..request() }).await;
            assert_eq!((cold.stdout.as_str(), cold.start), ("42\n", Start::Cold), "{language}");
            // The first find an empty shelf.
            let mut ready = run(&engine, request()).await;
            for _ in 0..100 {
                assert_eq!(ready.stdout, "42\n", "{language}");
                if ready.start == Start::Warm {
                    break;
                }
                ready = run(&engine, request()).await;
            }
            assert_eq!(ready.start, Start::Warm, "{language}");
            assert_eq!(ready.isolation, cold.isolation, "{language}");
        }
    });
}

#[test]
fn a_program_ends_warm_as_it_ends_cold() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        for code in [
            "import sys; sys.exit(3)",
            "import sys; sys.exit('no')",
            "import sys; sys.exit(True)",
            "raise SystemExit",
            "import os; os._exit(9)",
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
            "import os; os.abort()",
            "raise KeyboardInterrupt",
            "def f():\n    raise ValueError('x')\nf()",
            "x = (",
            "import atexit\natexit.register(print, 'bye')\nprint('hi')",
            "class A:\n    def __del__(self): print('gone')\na = A()\nprint('hi')",
            "import threading, time\nt = threading.Thread(target=lambda: print('late'))\nt.start()",
            "import sys; sys.stdout.write('no newline')",
            "import os\nif os.fork() == 0:\n    print('child')\n    raise SystemExit(0)\nos.wait(); print('parent')",
            "import multiprocessing as m\nif __name__ == '__main__':\n    print(m.get_context('spawn').Pool(1).map(abs, [-1]))",
            "from concurrent.futures import ThreadPoolExecutor as T\nprint(list(T(2).map(abs, [-1, -2])))",
            "import asyncio\nasync def f(): return 5\nprint(asyncio.run(f()))",
            "import sys\nprint(sys.argv, __name__, __file__, sys.path[0], sys.flags, sys.stdin.seekable(), sys.orig_argv)",
            "import os\nprint(sorted(os.environ.items()), os.getcwd(), os.getuid(), os.cpu_count(), os.umask(0))",
            "import os\nprint(sorted(os.listdir('/proc/self/fd')), sorted(os.listdir('/')), os.listdir('/work'))",
            "import resource as r\nprint([r.getrlimit(i) for i in range(16)])",
            "import signal\nprint([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals())][:20])",
            "print([l for l in open('/proc/self/status') if l.split(':')[0] in ('Uid Gid Groups NoNewPrivs Seccomp \
             CapInh CapPrm CapEff CapBnd CapAmb SigBlk SigIgn SigCgt Threads').split()])",
            "import subprocess as s\nprint(s.run(['sh', '-c', 'echo $0; env | sort; ls /proc/self/fd'], capture_output=True))",
            "print(input(), input())",
            "import sys; sys.exit(2**70)",
            "import sys; sys.exit(-1)",
            "import os\nos._exit = lambda status: None\nraise ValueError('x')",
            "import sys\ndel sys.stdout",
            "import sys\nclass Config: pass\nsys.modules['config'] = Config",
            "import time\nclass A:\n    def __del__(self): print('del', time.time() > 0)\na = A()\nb = [a]; b.append(b)",
            "import sys\nfor m in [m for m in sys.modules if m not in ('sys', 'builtins', '__main__')]: del sys.modules[m]",
            "def main():\n    f = open('o.txt', 'w')\n    f.write('data')\n    raise ValueError('x')\nmain()",
            "import json\njson.f = open('o.txt', 'w')\njson.f.write('data')",
            "import ctypes\nprint(ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0))",
            "import os\nprint(os.sched_getaffinity(0) is not None, os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())",
        ] {
            let request = || ExecRequest { args: vec!["one".to_owned()], stdin: "a\nb\n".to_owned(), ..python(code) };
            let cold = run(&engine, ExecRequest { cold: true, ..request() }).await;
            let ready = run(&engine, request()).await;
            assert_eq!(ready.start, Start::Warm);
            assert_eq!(ready.outcome, cold.outcome, "{code}\n{ready:?}");
            assert_eq!((&ready.stdout, &ready.stderr), (&cold.stdout, &cold.stderr), "{code}");
            assert_eq!(ready.exception, cold.exception, "{code}");
            assert_eq!(ready.files, cold.files, "{code}");
        }
    });
}

#[test]
fn limits_are_the_runs_own() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        let limited = |code: &str, limits| ExecRequest { limits, ..python(code) };
        let memory = LimitsSpec { memory_mb: Some(64.0), ..LimitsSpec::default() };
        let result = run(&engine, limited("b = bytearray(200 << 20)\nprint(len(b))", memory)).await;
        assert_eq!(result.outcome, Outcome::LimitExceeded { limit: LimitKind::Memory });
        let roomy = LimitsSpec { memory_mb: Some(1200.0), disk_mb: Some(300.0), ..LimitsSpec::default() };
        let code = "b = bytearray(700 << 20)\nopen('f', 'wb').write(bytes(250 << 20))\nprint(len(b))";
        let result = run(&engine, limited(code, roomy)).await;
        assert_eq!((result.ok, result.stdout.as_str()), (true, "734003200\n"), "{result:?}");
        let small = LimitsSpec { disk_mb: Some(1.0), inodes: Some(10), ..LimitsSpec::default() };
        let code = "import errno\ntry:\n    open('f', 'wb').write(bytes(2 << 20))\nexcept OSError as e:\n    print(e.errno == errno.ENOSPC)";
        let result = run(&engine, limited(code, small)).await;
        assert_eq!(result.stdout, "True\n");
        assert_eq!(result.limits_hit, [LimitKind::Disk]);
        let few = LimitsSpec { pids: Some(3), ..LimitsSpec::default() };
        let code =
            "import os\nn = 0\ntry:\n    while os.fork(): n += 1\n    os._exit(0)\nexcept OSError:\n    print(n)";
        let result = run(&engine, limited(code, few)).await;
        assert!(result.stdout.starts_with('2') && result.limits_hit.contains(&LimitKind::Pids), "{result:?}");
        let quick = LimitsSpec { wall_ms: Some(200.0), ..LimitsSpec::default() };
        let result = run(&engine, limited("print('a', flush=True)\nwhile True: pass", quick)).await;
        assert_eq!(
            (result.outcome, result.stdout.as_str()),
            (Outcome::LimitExceeded { limit: LimitKind::Wall }, "a\n")
        );
        let brief = LimitsSpec { cpu_ms: Some(100.0), ..LimitsSpec::default() };
        let result = run(&engine, limited("while True: pass", brief)).await;
        assert_eq!(result.outcome, Outcome::LimitExceeded { limit: LimitKind::Cpu });
        let many = LimitsSpec { cpus: Some(3.0), ..LimitsSpec::default() };
        let code = "print(open('/sys/devices/system/cpu/online').read())";
        assert_eq!(run(&engine, limited(code, many)).await.stdout, "0-2\n\n");
    });
}

#[test]
fn a_run_finds_nothing_of_the_run_before() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        let spoil = "import os, sys, random, json, builtins, socket\n\
            builtins.left = json.left = sys.left = 1\nrandom.seed(1)\nos.environ['LEFT'] = '1'\nsys.path.append('left')\n\
            for folder in ('/work', '/tmp', '/dev/shm'):\n    open(folder + '/left', 'w').write('1')\n\
            s = socket.socket(socket.AF_UNIX); s.bind('\\0left'); s.listen()\n\
            t = socket.socket(); t.bind(('127.0.0.1', 8000)); t.listen()\n\
            c = socket.create_connection(('127.0.0.1', 8000)); t.accept()[0].close()\n\
            os.chmod('/work', 0o700); os.umask(0o77); os.setpriority(os.PRIO_PROCESS, 0, 5)\nprint('done')";
        let look = "import os, sys, random, json, builtins, socket\n\
            print([hasattr(m, 'left') for m in (builtins, json, sys)], 'LEFT' in os.environ, 'left' in sys.path)\n\
            print([os.listdir(f) for f in ('/work', '/tmp', '/dev/shm')], oct(os.umask(0)), os.getpriority(0, 0))\n\
            print(open('/proc/net/unix').read().count('\\n'), open('/proc/net/tcp').read().count('\\n'))\n\
            print(open('/proc/net/dev').read().split('lo:')[1].split()[0])\n\
            t = socket.socket(); t.bind(('127.0.0.1', 8000)); print('bound')";
        let clean = run(&engine, ExecRequest { cold: true, ..python(look) }).await.stdout;
        for _ in 0..20 {
            let spoiled = run(&engine, python(spoil)).await;
            assert_eq!((spoiled.stdout.as_str(), spoiled.start), ("done\n", Start::Warm), "{spoiled:?}");
            assert_eq!(run(&engine, python(look)).await.stdout, clean);
        }
    });
}

#[test]
fn what_should_be_random_is() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        let code = "import random, tempfile, uuid, secrets, os\n\
            print(random.random(), tempfile.mktemp(), uuid.uuid4(), secrets.token_hex(8), os.urandom(4).hex(), sep='\\n')\n\
            print(os.getpid())";
        let mut seen: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        let runs = 12;
        for _ in 0..runs {
            for (line, text) in run(&engine, python(code)).await.stdout.lines().enumerate() {
                seen.entry(line).or_default().insert(text.to_owned());
            }
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|values| values.len() >= runs - 1), "{seen:?}");
    });
}

#[test]
fn a_programs_own_module_comes_before_a_preloaded_one() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        // The last of them is the one that was imported last, too.
        for module in settings().pool.preload {
            let files = vec![InputFile {
                path: RelPath::new(format!("{module}.py")).unwrap(),
                content: types::FileContent::Text("mine = 1".to_owned()),
            }];
            // Some are part of the interpreter itself, and cannot be replaced.
            let code = format!("import {module}; print(getattr({module}, 'mine', 0))");
            let request = || ExecRequest { files: files.clone(), ..python(&code) };
            let cold = run(&engine, ExecRequest { cold: true, ..request() }).await;
            let result = run(&engine, request()).await;
            assert_eq!((&result.stdout, result.start), (&cold.stdout, Start::Warm), "{module} {result:?}");
            assert!(result.ok, "{result:?}");
        }
    });
}

#[test]
fn preloaded_modules_are_there_and_the_interpreters_variables_still_work() {
    let _alone = alone();
    block(async {
        let pool = PoolSettings { preload: vec!["decimal".to_owned(), "no_such_module".to_owned()], ..settings().pool };
        let engine = warm(Settings { pool, ..settings() });
        let result = run(&engine, python("import sys; print('decimal' in sys.modules, 'json' in sys.modules)")).await;
        assert_eq!((result.stdout.as_str(), result.start), ("True False\n", Start::Warm));
        let env = [("PYTHONOPTIMIZE", "1"), ("X", "y")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let code = "import os\nassert False\nprint(os.environ['X'])";
        assert_eq!(run(&engine, ExecRequest { env, ..python(code) }).await.stdout, "y\n");
    });
}

#[test]
fn no_worker_is_missed_on_a_busy_machine() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let cold = runtime.block_on(async {
        let engine = warm(settings());
        // The interpreter starts while there is no hurry.
        run(&engine, python("pass")).await;
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..4 {
            let over = Arc::clone(&over);
            std::thread::spawn(move || while !over.load(Ordering::Relaxed) {});
        }
        let mut callers = JoinSet::new();
        for _ in 0..16 {
            let engine = Arc::clone(&engine);
            callers.spawn(async move {
                let mut cold = 0;
                for _ in 0..40 {
                    cold += usize::from(run(&engine, python("pass")).await.start != Start::Warm);
                }
                cold
            });
        }
        let cold: usize = callers.join_all().await.into_iter().sum();
        over.store(true, Ordering::Relaxed);
        cold
    });
    assert_eq!(cold, 0);
}

#[test]
fn a_killed_zygote_or_keeper_is_replaced() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        for _ in 0..3 {
            assert!(run(&engine, python("print(1)")).await.ok);
            let found = zygotes();
            assert_eq!(found.len(), 1);
            kill(found[0]);
            assert!(run(&engine, python("print(1)")).await.ok, "after its zygote was killed");
            children(std::process::id()).into_iter().for_each(kill);
            assert!(run(&engine, python("print(1)")).await.ok, "after its keeper was killed");
        }
        // A run that was under way goes on, and its end is known.
        let mut run =
            std::pin::pin!(run_or_error(&engine, python("import time; time.sleep(0.5); raise SystemExit(7)")));
        let mut killed = false;
        let result = loop {
            tokio::select! {
                result = &mut run => break result.unwrap(),
                () = tokio::task::yield_now() => {
                    let busy = |zygote: &u32| children(*zygote).iter().any(|pid| is_leased(*pid));
                    if let Some(zygote) = zygotes().into_iter().find(busy).filter(|_| !killed) {
                        kill(zygote);
                        killed = true;
                    }
                }
            }
        };
        assert!(killed);
        assert_eq!(result.outcome, Outcome::Exited { code: 7 });
    });
    settle(|| zygotes().is_empty(), "zygotes");
}

async fn run_or_error(engine: &Engine, request: ExecRequest) -> Result<ExecResult, RunError> {
    engine.execute(&Caller::default(), request, Delivery::default()).await
}

/// A worker that runs a program has closed its channel.
fn is_leased(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/3")).is_err() && fs::read_link(format!("/proc/{pid}/fd/0")).is_ok()
}

#[test]
fn orphans_of_every_kind_are_reaped_also_when_the_zygote_is_replaced() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        // More than one zygote's share, many at once, each leaving children behind that nobody waits for.
        let code = "import os, time\nfor i in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        \
                    if os.fork() == 0: time.sleep(1000)\n        os._exit(0)";
        let mut runs = JoinSet::new();
        for number in 0..1100 {
            let (engine, request) = (Arc::clone(&engine), python(code));
            runs.spawn(async move { assert!(run(&engine, request).await.ok, "{number}") });
            if runs.len() == 8 {
                runs.join_next().await.unwrap().unwrap();
            }
        }
        while let Some(done) = runs.join_next().await {
            done.unwrap();
        }
        assert!(run(&engine, python("print(1)")).await.ok);
    });
}

#[test]
fn a_started_interpreter_has_its_own_limits() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        let node = |limits| ExecRequest {
            language: Some("node".to_owned()),
            limits,
            ..python(
                "const os = require('os');\nconsole.log(v8 = require('v8').getHeapStatistics().heap_size_limit >> 20,\
                      os.cpus().length, os.availableParallelism(), process.argv, process.execArgv, require.main === module)",
            )
        };
        let small = LimitsSpec { memory_mb: Some(256.0), cpus: Some(2.0), ..LimitsSpec::default() };
        for limits in [LimitsSpec::default(), LimitsSpec { cpus: Some(2.0), ..LimitsSpec::default() }, small] {
            let cold = run(&engine, ExecRequest { cold: true, ..node(limits.clone()) }).await;
            let ready = run(&engine, node(limits)).await;
            assert_eq!((ready.stdout, ready.stderr), (cold.stdout, cold.stderr));
        }
    });
}

#[test]
fn a_run_is_not_charged_for_the_one_before() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        let spin = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass";
        let costly = format!("b = bytearray(100 << 20)\nopen('f', 'wb').write(bytes(20 << 20))\n{spin}");
        let forking = "import os, time\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(9)\n\
                       \x20   except OSError: break";
        // More rounds than sandboxes are ready: what is made for the later ones is what the earlier ones left.
        for _ in 0..6 {
            let result = run(&engine, python(&costly)).await;
            assert!(result.ok && result.usage.peak_memory_bytes > 100 << 20, "{result:?}");
            assert_eq!(run(&engine, python(forking)).await.limits_hit, [LimitKind::Pids]);
            let over = run(&engine, python("b = bytearray(1 << 30)")).await;
            assert_eq!(over.outcome, Outcome::LimitExceeded { limit: LimitKind::Memory });
            // Two, so that the number of kinds is not that of sandboxes that are ready: each kind follows each other.
            for _ in 0..2 {
                let result = run(&engine, python("pass")).await;
                assert!(result.ok && result.limits_hit.is_empty(), "{result:?}");
                assert!(result.usage.peak_memory_bytes < 40 << 20 && result.usage.cpu_ms < 150.0, "{:?}", result.usage);
            }
        }
    });
}

/// The number of its network, which is never given twice, and everything that the network tells of itself.
const LOOK: &str = r"
import re, socket
with socket.socket(socket.AF_UNIX) as s:
    print(int.from_bytes(s.getsockopt(socket.SOL_SOCKET, 71, 8), 'little'), end='\0')
for name in 'sockstat sockstat6 dev snmp snmp6 netstat tcp tcp6 udp udp6 unix ip6_flowlabel if_inet6 ipv6_route'.split():
    try:
        text = open('/proc/self/net/' + name).read()
    except OSError:
        continue
    # These are of the whole host.
    print(re.sub(' (orphan|alloc|mem) [0-9]+', '', text) if name == 'sockstat' else text)
";

/// What leaves something in a network: connections that wait for their end, packets, refusals, names that outlive their
/// process for a while, flow labels.
const NOISES: [&str; 5] = [
    "a = socket.create_server(('127.0.0.1', 0)); b = socket.create_connection(a.getsockname()); \
     c = a.accept()[0]; c.sendall(b'x' * 9); c.close(); b.recv(9); b.close()",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('::1', 9))",
    "print(socket.socket().connect_ex(('192.0.2.1', 9)))",
    "a, b = socket.socketpair(); c = socket.socket(socket.AF_UNIX); c.bind('\\0left'); c.listen(); \
     [socket.send_fds(x, [b'x'], [y.fileno(), c.fileno()]) for x, y in ((a, b), (b, a))]",
];

#[test]
fn a_network_serves_again_and_tells_nothing_of_the_run_before() {
    let _alone = alone();
    block(async {
        let engine = warm(settings());
        let look = async || {
            let result = run(&engine, python(LOOK)).await;
            assert!(result.ok, "{result:?}");
            let (number, told) = result.stdout.split_once('\0').unwrap();
            (number.to_owned(), told.to_owned())
        };
        let (first, new) = look().await;
        let mut numbers = vec![first];
        for _ in 0..12 {
            let (number, told) = look().await;
            assert_eq!(told, new);
            numbers.push(number);
        }
        let different: BTreeSet<&String> = numbers.iter().collect();
        assert!(different.len() < numbers.len(), "none served twice: {numbers:?}");

        for noise in NOISES.iter().cycle().take(15) {
            let own = format!("{LOOK}\nprint('\\0', end='')\n{noise}");
            let result = run(&engine, python(&own)).await;
            assert!(result.ok, "{noise}: {result:?}");
            let used = result.stdout.split('\0').next().unwrap().to_owned();
            for _ in 0..3 {
                let (number, told) = look().await;
                assert_eq!(told, new, "after {noise}");
                assert!(number != used || noise.contains("left"), "{noise} was forgotten");
            }
        }
    });
}

#[test]
fn shelves_are_emptied_when_nobody_asks() {
    let _alone = alone();
    block(async {
        let pool = PoolSettings { idle: Duration::from_millis(200), ..settings().pool };
        let engine = warm(Settings { pool, ..settings() });
        assert!(run(&engine, bash("echo 1")).await.ok);
        assert!(run(&engine, python("print(1)")).await.ok);
        let waiting = || zygotes().into_iter().flat_map(children).count();
        until("a worker ahead of need", || waiting() > 0).await;
        until("the emptying of the shelf", || waiting() == 0).await;
        assert!(run(&engine, python("print(1)")).await.ok);
    });
}

#[test]
fn a_caller_who_goes_away_frees_his_place() {
    let _alone = alone();
    block(async {
        let pool = PoolSettings { running: 1, ..settings().pool };
        let engine = warm(Settings { pool, ..settings() });
        let mut endless = Box::pin(run_or_error(&engine, python("while True: pass")));
        let mut waiting = Box::pin(run_or_error(&engine, python("print(2)")));
        while !zygotes().into_iter().flat_map(children).any(is_leased) {
            tokio::select! {
                biased;
                result = &mut endless => panic!("ended: {result:?}"),
                result = &mut waiting => panic!("overtook: {result:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        drop(endless);
        assert_eq!(waiting.await.unwrap().stdout, "2\n");
    });
}
