//! Network `open`: what a run reaches and what it does not, on hosts made of network namespaces.
//!
//! The program under test runs in a namespace of its own, `host`, so that nothing outside this machine is ever spoken to:
//! "the internet" is a second namespace behind it.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests start the program and its surroundings, and fail loudly"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use common::{eventually, folder, json, saggar, text};

/// A host and an internet with one server, which both end with the test.
struct World {
    name: String,
    servers: Vec<Child>,
}

/// Answers every connection with what it was asked, and every name with 203.0.113.9.
const SERVER: &str = r#"
import socket, struct, sys, threading
def tcp(host, port, family=socket.AF_INET):
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((host, port)); s.listen(64)
    def serve(c):
        while data := c.recv(65536): c.sendall(data)
        c.shutdown(socket.SHUT_WR); c.close()
    def loop():
        while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
def udp(host):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((host, 53))
    def loop():
        while True:
            q, who = s.recvfrom(4096)
            end = q.index(b"\0", 12) + 5
            v4 = q[end-4:end-2] == b"\0\1"
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("203.0.113.9") if v4 else b""
            s.sendto(q[:2] + b"\x81\x80\0\1" + struct.pack(">H", int(v4)) + b"\0\0\0\0" + q[12:end] + answer, who)
    threading.Thread(target=loop, daemon=True).start()
tcp("0.0.0.0", 80); tcp("::", 80, socket.AF_INET6)
udp(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"#;

impl World {
    #[track_caller]
    fn new(name: &str) -> Self {
        let name = format!("sg{}{name}", std::process::id());
        let mut world = Self { name, servers: Vec::new() };
        let (host, net) = (world.host(), world.internet());
        // The address of a cloud's metadata, a neighbour's and one of the public internet, all on the other side.
        for line in [
            format!("netns add {host}"),
            format!("netns add {net}"),
            format!("-n {host} link set lo up"),
            format!("-n {net} link set lo up"),
            format!("-n {host} link add veth0 type veth peer name veth1 netns {net}"),
            // No link-local addresses: the kernel would still be busy making them while the test looks.
            format!("-n {host} link set veth0 addrgenmode none"),
            format!("-n {net} link set veth1 addrgenmode none"),
            format!("-n {host} addr add 198.51.100.2/24 dev veth0"),
            format!("-n {host} addr add 2001:db8:1::2/64 dev veth0 nodad"),
            format!("-n {host} link set veth0 up"),
            format!("-n {net} addr add 198.51.100.1/24 dev veth1"),
            format!("-n {net} addr add 203.0.113.9/32 dev veth1"),
            format!("-n {net} addr add 169.254.169.254/32 dev veth1"),
            format!("-n {net} addr add 10.7.0.1/32 dev veth1"),
            format!("-n {net} addr add 2001:db8:1::1/64 dev veth1 nodad"),
            format!("-n {net} addr add fd00:ec2::254/128 dev veth1 nodad"),
            format!("-n {net} link set veth1 up"),
            format!("-n {host} route add default via 198.51.100.1"),
            format!("-n {host} -6 route add default via 2001:db8:1::1"),
        ] {
            let done = Command::new("ip").args(line.split(' ')).output().unwrap();
            assert!(done.status.success(), "ip {line}: {}", text(&done.stderr));
        }
        for (space, resolver) in [(world.internet(), "198.51.100.1"), (world.host(), "127.0.0.1")] {
            let mut server = Command::new("ip");
            server.args(["netns", "exec", &space, "python3", "-c", SERVER, resolver]);
            let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut ready = [0; 6];
            std::io::Read::read_exact(server.stdout.as_mut().unwrap(), &mut ready).unwrap();
            world.servers.push(server);
        }
        world
    }

    fn host(&self) -> String {
        format!("{}h", self.name)
    }

    fn internet(&self) -> String {
        format!("{}n", self.name)
    }

    /// A run on the host, with settings of its own.
    fn command(&self, settings: &str, args: &[&str]) -> Command {
        self.command_in(&folder(&format!("network-{}", self.name)), settings, args)
    }

    /// The same with a state folder that is there already.
    fn command_in(&self, state: &std::path::Path, settings: &str, args: &[&str]) -> Command {
        let config = state.join("saggar.toml");
        fs::write(&config, format!("[network]\nresolver = \"198.51.100.1\"\n{settings}")).unwrap();
        let inner = saggar(&[]);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host()]).arg(inner.get_program()).args(args);
        command.arg("--config").arg(&config).env("SAGGAR_HOME", state).stdin(Stdio::null());
        if let Ok(daemon) = std::env::var("SAGGAR_TEST_DOCKER") {
            command.env("DOCKER_HOST", daemon);
        }
        command
    }

    fn run(&self, settings: &str, code: &str) -> Output {
        self.run_on(&[], settings, code)
    }

    /// The same on the backend that `backend` names.
    fn run_on(&self, backend: &[&str], settings: &str, code: &str) -> Output {
        // Two threads for each of forty connections, all at once on a busy machine.
        let args = ["run", "--network", "open", "--timeout", "60s", "--pids", "128", "--json", "-c", code];
        self.command(settings, &[&args, backend].concat()).output().unwrap()
    }

    /// What is set on the host: devices, rules and routes.
    fn traces(&self) -> String {
        ["ip -o link", "ip rule", "ip -6 rule", "ip route show table all"].map(|line| self.look(line)).concat()
    }

    /// Connections that stand.
    fn connections(&self) -> usize {
        self.look("cat /proc/net/tcp").lines().filter(|line| line.contains(" 01 ")).count()
    }

    fn look(&self, line: &str) -> String {
        let seen = Command::new("ip").args(["netns", "exec", &self.host()]).args(line.split(' ')).output().unwrap();
        text(&seen.stdout)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for space in [self.host(), self.internet()] {
            let _ = Command::new("ip").args(["netns", "del", &space]).output();
        }
    }
}

/// Python: says which of the addresses answer at port 80.
fn reach(addresses: &[&str]) -> String {
    format!(
        r#"
import socket
def ask(where):
    try:
        with socket.create_connection((where, 80), timeout=5) as s:
            s.sendall(b"hello"); s.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: s.recv(100), b"")).decode()
    except OSError as e:
        return "no"
for where in {addresses:?}:
    print(where, ask(where))
"#
    )
}

/// Options for containers of the daemon that `scripts/docker-engine` has started. Its socket is a file, which is the same
/// in every network.
fn on_docker() -> Vec<String> {
    let image = std::env::var("SAGGAR_TEST_IMAGE").unwrap();
    ["--backend", "docker", "--image", &image].map(str::to_owned).to_vec()
}

#[test]
fn the_internet_is_open_and_the_host_and_its_neighbours_are_not() {
    what_is_open_and_what_is_not("a", &[]);
}

#[test]
#[ignore = "needs a Docker daemon: scripts/test-docker"]
fn on_docker_the_internet_is_open_and_the_daemons_host_and_its_neighbours_are_not() {
    let backend = on_docker();
    what_is_open_and_what_is_not("x", &backend.iter().map(String::as_str).collect::<Vec<_>>());
}

fn what_is_open_and_what_is_not(name: &str, backend: &[&str]) {
    let world = World::new(name);
    let before = world.traces();
    let open = ["203.0.113.9", "198.51.100.1", "2001:db8:1::1", "some.name.example"];
    let closed = [
        "127.0.0.1",
        "::1",
        "198.51.100.2",
        "2001:db8:1::2",
        "10.7.0.1",
        "169.254.169.254",
        "fd00:ec2::254",
        "10.0.2.2",
        "10.0.2.3",
        "::ffff:10.7.0.1",
        "::ffff:127.0.0.1",
        "0.0.0.0",
        "::ffff:198.51.100.2",
    ];
    let output = world.run_on(backend, "", &reach(&[&open[..], &closed[..]].concat()));
    let result = json(&output);
    let lines =
        |places: &[&str], said: &str| places.iter().map(|place| format!("{place} {said}\n")).collect::<Vec<_>>();
    let expected = [lines(&open, "hello"), lines(&closed, "no")].concat().concat();
    assert_eq!(result["stdout"], expected, "{result}");
    // It is a namespace of its own, and of all else nothing is given up.
    let plain = json(&world.command("", &[&["run", "--json", "-c", "1"], backend].concat()).output().unwrap());
    assert_eq!(result["isolation"], plain["isolation"]);
    assert_eq!(world.traces(), before);
    // Without the option there is no way out.
    let code = reach(&["203.0.113.9", "2001:db8:1::1"]);
    let none = world.command("", &[&["run", "--json", "-c", &code], backend].concat()).output().unwrap();
    assert_eq!(json(&none)["stdout"], "203.0.113.9 no\n2001:db8:1::1 no\n");
}

#[test]
fn a_session_reaches_what_a_run_reaches() {
    what_a_session_reaches("s", &[]);
}

#[test]
#[ignore = "needs a Docker daemon: scripts/test-docker"]
fn a_session_on_docker_reaches_what_a_run_reaches() {
    let backend = on_docker();
    what_a_session_reaches("y", &backend.iter().map(String::as_str).collect::<Vec<_>>());
}

fn what_a_session_reaches(name: &str, backend: &[&str]) {
    let world = World::new(name);
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let state = folder(&format!("network-{}", world.name));
    let mut serving = world.command_in(&state, "", &serve);
    let mut server = serving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the server listens", || state.join("saggar.sock").exists());
    let session = |args: &[&str]| json(&world.command_in(&state, "", &[&["session"], args].concat()).output().unwrap());
    let open = session(&[&["create", "--json", "--network", "open"], backend].concat());
    assert_eq!(open["network"], "open", "{open}");
    let id = open["id"].as_str().unwrap();
    let places = ["203.0.113.9", "some.name.example", "127.0.0.1", "198.51.100.2", "10.7.0.1", "169.254.169.254"];
    let ran = session(&["run", id, "--json", "-c", &reach(&places)]);
    let expected =
        "203.0.113.9 hello\nsome.name.example hello\n127.0.0.1 no\n198.51.100.2 no\n10.7.0.1 no\n169.254.169.254 no\n";
    assert_eq!(ran["stdout"], expected, "{ran}");
    let closed = session(&[&["create", "--json"], backend].concat());
    let ran = session(&["run", closed["id"].as_str().unwrap(), "--json", "-c", &reach(&["203.0.113.9"])]);
    assert_eq!(ran["stdout"], "203.0.113.9 no\n");
    assert_eq!(open["isolation"], closed["isolation"]);
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn what_the_settings_name_is_open_and_they_can_close_all() {
    let world = World::new("b");
    let output =
        world.run("reach = [\"10.7.0.0/16\", \"127.0.0.1\"]", &reach(&["10.7.0.1", "127.0.0.1", "169.254.169.254"]));
    // Inside, 127.0.0.1 is the run's own loopback whatever the settings say.
    assert_eq!(
        json(&output)["stdout"],
        "10.7.0.1 hello\n127.0.0.1 no\n169.254.169.254 no\n",
        "{}",
        text(&output.stdout)
    );
    let output = world.run("open = \"nobody\"", "1");
    assert_eq!((output.status.code(), &json(&output)["error"]["code"]), (Some(125), &"unsupported".into()));
}

#[test]
fn much_goes_both_ways_unharmed_and_many_at_once() {
    much_goes_both_ways("c", &[]);
}

#[test]
#[ignore = "needs a Docker daemon: scripts/test-docker"]
fn on_docker_much_goes_both_ways_unharmed_and_many_at_once() {
    let backend = on_docker();
    much_goes_both_ways("z", &backend.iter().map(String::as_str).collect::<Vec<_>>());
}

fn much_goes_both_ways(name: &str, backend: &[&str]) {
    let world = World::new(name);
    let code = r#"
import socket, threading, hashlib, random
def carry(size):
    data = random.Random(size).randbytes(size)
    s = socket.create_connection(("203.0.113.9", 80), timeout=30)
    back = hashlib.sha256()
    def read():
        while part := s.recv(65536): back.update(part)
    t = threading.Thread(target=read); t.start()
    s.sendall(data); s.shutdown(socket.SHUT_WR); t.join()
    assert back.digest() == hashlib.sha256(data).digest(), size
carry(8 << 20)
threads = [threading.Thread(target=carry, args=(100_000 + n,)) for n in range(40)]
for t in threads: t.start()
for t in threads: t.join()
print("done")
"#;
    let output = world.run_on(backend, "", code);
    assert_eq!(json(&output)["stdout"], "done\n", "{}", text(&output.stdout));
}

#[test]
fn nothing_is_left_after_a_kill() {
    let world = World::new("d");
    let before = world.traces();
    let code = "import socket, time\ns = socket.create_connection(('203.0.113.9', 80))\nprint('ready', flush=True)\ntime.sleep(600)";
    let mut command = world.command("", &["run", "--network", "open", "-c", code]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    assert_eq!(world.connections(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the host is as it was", || world.connections() == 0 && world.traces() == before);
}

/// A package index with one package, `tiny`, in a folder.
fn index(folder: &std::path::Path) {
    let make = r#"
import sys, zipfile, os
os.makedirs("simple/tiny")
name = "tiny-1.0-py3-none-any.whl"
with zipfile.ZipFile("simple/tiny/" + name, "w") as wheel:
    wheel.writestr("tiny/__init__.py", "def answer(): return 42\n")
    info = "tiny-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", f"tiny/__init__.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")
open("simple/tiny/index.html", "w").write(f'<a href="{name}">{name}</a>')
"#;
    let done = Command::new("python3").args(["-c", make]).current_dir(folder).status().unwrap();
    assert!(done.success());
}

#[test]
fn packages_are_installed_once_and_run_without_a_network() {
    let mut world = World::new("e");
    let files = folder("network-index");
    index(&files);
    let mut server = Command::new("ip");
    server.args(["netns", "exec", &world.internet(), "python3", "-m", "http.server", "8080", "--bind", "203.0.113.9"]);
    world.servers.push(server.current_dir(&files).stderr(Stdio::null()).spawn().unwrap());
    let state = folder("network-build-state");
    let config = state.join("saggar.toml");
    fs::write(&config, "[build]\nindex_url = \"http://203.0.113.9:8080/simple\"\n").unwrap();
    let host = world.host();
    let ask = |args: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &host]).arg(saggar(&[]).get_program()).args(args);
        command.arg("--config").arg(&config).env("SAGGAR_HOME", &state).stdin(Stdio::null()).output().unwrap()
    };
    eventually("the index answers", || ask(&["image", "build", "small", "--pip", "tiny"]).status.success());
    let code = "import tiny; print(tiny.answer())";
    let ran = json(&ask(&["run", "--image", "small", "--json", "-c", code]));
    assert_eq!(ran["stdout"], "42\n", "{ran}");
    assert_eq!(json(&ask(&["run", "--json", "-c", code]))["exception"]["type"], "ModuleNotFoundError");
    // A server builds as the command line does, and says what the installers say.
    let kept = folder("network-build-server");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o700)).unwrap();
    let mut serve = Command::new("ip");
    serve.args(["netns", "exec", &host]).arg(saggar(&[]).get_program()).args(["serve", "--listen", "127.0.0.1:0"]);
    serve.arg("--config").arg(&config).env("SAGGAR_HOME", &kept).stderr(Stdio::piped());
    let mut serve = serve.spawn().unwrap();
    let mut said = BufReader::new(serve.stderr.take().unwrap()).lines();
    let line = said.next().unwrap().unwrap();
    world.servers.push(serve);
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or_else(|| panic!("{line}"));
    let key = fs::read_to_string(kept.join("api-key")).unwrap();
    let away = |args: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &host]).arg(saggar(&[]).get_program()).args(args).args(["--server", url]);
        command.env("SAGGAR_HOME", kept.join("nothing-here")).env("SAGGAR_API_KEY", key.trim());
        command.stdin(Stdio::null()).output().unwrap()
    };
    let built = away(&["image", "build", "web", "--pip", "tiny", "--json"]);
    assert_eq!(json(&built)["name"], "web", "{}", text(&built.stderr));
    assert!(text(&built.stderr).contains("tiny"), "what pip says: {}", text(&built.stderr));
    assert_eq!(json(&away(&["run", "--image", "web", "--json", "-c", code]))["stdout"], "42\n");
    let failed = away(&["image", "build", "none", "--pip", "nothing-of-this-name", "--json"]);
    assert_eq!((failed.status.code(), &json(&failed)["error"]["code"]), (Some(125), &"build_failed".into()));
    assert_eq!(
        away(&["image", "build", "x", "--pip", "tiny", "--index-url", "http://10.7.0.1/"]).status.code(),
        Some(2)
    );
    // The same again needs no index, nor does a script that asks for the same.
    for mut server in world.servers.drain(..) {
        let _ = server.kill();
        let _ = server.wait();
    }
    let again = ask(&["image", "build", "other", "--pip", "tiny", "--json"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let script = "# /// script\n# dependencies = ['tiny']\n# ///\nimport tiny\nprint(tiny.answer())";
    let ran = json(&ask(&["run", "--script-deps", "--json", "-c", script]));
    assert_eq!(ran["stdout"], "42\n", "{ran}");
    let failed = ask(&["image", "build", "none", "--pip", "nothing-of-this-name", "--json"]);
    assert_eq!((failed.status.code(), &json(&failed)["error"]["code"]), (Some(125), &"build_failed".into()));
    assert_eq!(json(&ask(&["image", "list", "--json"])).as_array().unwrap().len(), 3);
}

#[test]
fn a_scripts_packages_are_installed_where_an_e2b_server_runs_it() {
    let mut world = World::new("f");
    let (files, host) = (folder("network-e2b-index"), world.host());
    index(&files);
    let mut server = Command::new("ip");
    server.args(["netns", "exec", &world.internet(), "python3", "-m", "http.server", "8080", "--bind", "203.0.113.9"]);
    world.servers.push(server.current_dir(&files).stderr(Stdio::null()).spawn().unwrap());
    let here = folder("network-e2b-here");
    let config = here.join("saggar.toml");
    fs::write(&config, "[e2b.backend]\nindex_url = \"http://203.0.113.9:8080/simple\"\n").unwrap();
    let mut serve = |name: &str, network: &str| {
        let far = folder(&format!("network-e2b-{name}"));
        fs::set_permissions(&far, fs::Permissions::from_mode(0o700)).unwrap();
        let settings = far.join("saggar.toml");
        let text = format!("[network]\nopen = \"everybody\"\n[e2b]\nbuild = false\nnetwork = \"{network}\"\n");
        fs::write(&settings, text).unwrap();
        let mut serve = Command::new("ip");
        serve.args(["netns", "exec", &host]).arg(saggar(&[]).get_program()).args(["serve", "--listen", "127.0.0.1:0"]);
        serve.arg("--config").arg(&settings).env("SAGGAR_HOME", &far).stderr(Stdio::piped());
        let mut serve = serve.spawn().unwrap();
        let line = BufReader::new(serve.stderr.take().unwrap()).lines().next().unwrap().unwrap();
        world.servers.push(serve);
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or_else(|| panic!("{line}"));
        (url.to_owned(), fs::read_to_string(far.join("api-key")).unwrap().trim().to_owned())
    };
    let (open, closed) = (serve("open", "open"), serve("closed", "none"));
    let run = |(url, key): &(String, String), words: &[&str], code: &str| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &host]).arg(saggar(&[]).get_program());
        command.args(["run", "--backend", "e2b", "--script-deps", "--json"]).args(words).args(["-c", code]);
        command.arg("--config").arg(&config).env("SAGGAR_HOME", &here).stdin(Stdio::null());
        command.env("E2B_API_KEY", key).env("E2B_API_URL", url).env("E2B_SANDBOX_URL", url).output().unwrap()
    };
    let asking = |package: &str, rest: &str| format!("# /// script\n# dependencies = ['{package}']\n# ///\n{rest}");
    let code = asking("tiny", "import tiny, socket\nprint(tiny.answer(), tiny.__file__)\nopen('made', 'w').write('x')");
    eventually("the index answers", || run(&open, &[], &code).status.success());
    let ran = json(&run(&open, &[], &code));
    let at = "/home/user/.saggar/packages/opt/packages/python/tiny/__init__.py";
    assert_eq!((&ran["stdout"], &ran["backend"]), (&format!("42 {at}\n").into(), &"e2b".into()), "{ran}");
    // What was installed is no file of the run.
    assert_eq!(ran["files"].as_array().unwrap().len(), 1, "{ran}");
    // The installer's way out is not the run's.
    let out = "import tiny, socket\nsocket.create_connection(('203.0.113.9', 8080), 5)\nprint('out')";
    let kept_in = json(&run(&open, &[], &asking("tiny", out)));
    assert_eq!((&kept_in["stdout"], &kept_in["ok"]), (&"".into(), &false.into()), "{kept_in}");
    let let_out = json(&run(&open, &["--network", "open"], &asking("tiny", out)));
    assert_eq!(let_out["stdout"], "out\n", "{let_out}");
    // Neither an index without the package nor a server without a way out is passed over.
    for (server, package) in [(&open, "nothing-of-this-name"), (&closed, "tiny")] {
        let failed = run(server, &[], &asking(package, "print('ran')"));
        assert_eq!(failed.status.code(), Some(125));
        let error = json(&failed);
        assert_eq!(error["error"]["code"], "build_failed", "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("E2B server"), "{error}");
    }
}
