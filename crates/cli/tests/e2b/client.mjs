// Every call of the JavaScript clients. SAGGAR_TEST_E2B_JS names the folder that has them.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const require = createRequire(`${process.env.SAGGAR_TEST_E2B_JS}/`)
const e2b = require('e2b')
const { Sandbox: Interpreter } = require('@e2b/code-interpreter')
const { Sandbox } = e2b

async function until(what, isTrue) {
  const end = Date.now() + 30_000
  while (!(await isTrue())) {
    assert(Date.now() < end, what)
    await new Promise((next) => setTimeout(next, 50))
  }
}

const fails = (promise, kind) => assert.rejects(promise, (error) => error instanceof kind || assert.fail(String(error)))

async function controlPlane() {
  const metadata = { who: 'a b&c=%' }
  const first = await Sandbox.create({ timeoutMs: 120_000, metadata, envs: { GREETING: 'hi' } })
  const second = await Sandbox.create('base', { timeoutMs: 60_000 })
  assert(await first.isRunning())
  const found = async (query) => (await Sandbox.list({ query }).nextItems()).map((one) => one.sandboxId)
  assert.deepEqual(await found({ metadata }), [first.sandboxId])
  assert.deepEqual(await found({ state: ['paused'] }), [])
  const pages = Sandbox.list({ limit: 1 })
  const seen = []
  while (pages.hasNext) seen.push(...(await pages.nextItems()).map((one) => one.sandboxId))
  assert.deepEqual(seen, [second.sandboxId, first.sandboxId])
  const info = await first.getInfo()
  assert.deepEqual([info.metadata, info.state, info.templateId], [metadata, 'running', 'base'])
  await first.setTimeout(600_000)
  assert((await Sandbox.getInfo(first.sandboxId)).endAt > info.endAt)
  const again = await Sandbox.connect(first.sandboxId)
  assert.equal((await again.commands.run('echo $GREETING')).stdout, 'hi\n')
  assert((await first.getMetrics())[0].memTotal > 0)
  assert.equal(first.getHost(8000).split('.')[0], `8000-${first.sandboxId}`)
  await fails(first.updateNetwork({ denyOut: ['0.0.0.0/0'] }), e2b.SandboxError)

  await first.files.write('kept', 'words')
  const running = await first.commands.run('sleep 600', { background: true })
  assert.equal(await first.pause(), true)
  assert.equal((await first.getInfo()).state, 'paused')
  assert.equal(await first.pause(), false)
  await first.connect()
  assert((await first.commands.list()).some((process) => process.pid === running.pid))
  const snapshot = await first.createSnapshot()
  assert((await first.listSnapshots().nextItems()).some((one) => one.snapshotId === snapshot.snapshotId))
  await first.files.write('kept', 'other')
  const copy = await Sandbox.create(snapshot.snapshotId, { timeoutMs: 60_000 })
  assert.equal(await copy.files.read('kept'), 'words')
  const forks = await first.fork({ count: 2 })
  for (const one of forks) assert.equal(await one.files.read('kept'), 'other')
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
  for (const one of [copy, ...forks, second]) await one.kill()
  assert.equal(await Sandbox.kill(first.sandboxId), true)
  assert.equal(await Sandbox.kill(first.sandboxId), false)
  assert.equal(await first.isRunning(), false)
  await fails(Sandbox.connect(first.sandboxId), e2b.NotFoundError)
  await fails(Sandbox.create('no-such-template'), e2b.SandboxError)
}

async function commands() {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
  const { commands, pty } = sandbox
  const done = await commands.run('echo $A; pwd; echo err >&2', { envs: { A: 'b' }, cwd: '/tmp' })
  assert.deepEqual([done.stdout, done.stderr, done.exitCode], ['b\n/tmp\n', 'err\n', 0])
  const failed = await commands.run('echo some; exit 3').catch((error) => error)
  assert(failed instanceof e2b.CommandExitError)
  assert.deepEqual([failed.exitCode, failed.stdout], [3, 'some\n'])
  assert.equal((await commands.run('id -un', { user: 'root' })).stdout, 'root\n')
  assert.equal((await commands.run('sudo id -un')).stdout, 'root\n')
  const heard = []
  await commands.run('printf 1', { onStdout: (text) => heard.push(text) })
  assert.deepEqual(heard, ['1'])

  const cat = await commands.run('cat', { background: true, stdin: true })
  assert((await commands.list()).some((process) => process.pid === cat.pid))
  const other = await commands.connect(cat.pid)
  await commands.sendStdin(cat.pid, 'one\n')
  await commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'one\n')
  assert.equal((await other.wait()).exitCode, 0)
  const sleep = await commands.run('sleep 600', { background: true })
  assert.equal(await commands.kill(sleep.pid), true)
  assert.equal(await commands.kill(999_999), false)
  await fails(sleep.wait(), e2b.CommandExitError)
  await fails(commands.connect(999_999), e2b.NotFoundError)
  await fails(commands.run('true', { cwd: '/nowhere' }), e2b.InvalidArgumentError)
  await fails(commands.run('sleep 600', { timeoutMs: 1000 }), e2b.TimeoutError)

  let said = ''
  const onData = (data) => (said += new TextDecoder().decode(data))
  const terminal = await pty.create({ cols: 80, rows: 24, onData, envs: { A: 'in a terminal' }, cwd: '/tmp' })
  await pty.resize(terminal.pid, { cols: 100, rows: 30 })
  await pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; echo $A; pwd; exit 0\n'))
  assert.equal((await terminal.wait()).exitCode, 0)
  for (const words of ['30 100', 'in a terminal', '/tmp']) assert(said.includes(words), said)
  const shell = await pty.create({ cols: 80, rows: 24, onData: () => {} })
  const joined = await pty.connect(shell.pid, { onData: () => {} })
  assert.equal(await pty.kill(shell.pid), true)
  assert.equal(await pty.kill(999_999), false)
  await joined.disconnect()

  const waiting = await commands.run('sleep 600', { background: true })
  const told = assert.rejects(waiting.wait(), /killed or reached its end of life/)
  await sandbox.kill()
  await told
}

async function files() {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
  const { files, git } = sandbox
  const info = await files.write('new folder/ä.txt', 'words\n')
  assert.equal(info.path, '/home/user/new folder/ä.txt')
  assert.equal(await files.read('new folder/ä.txt'), 'words\n')
  const binary = Uint8Array.from({ length: 300_000 }, (_, at) => at % 256)
  for (const options of [{}, { gzip: true }, { useOctetStream: true }, { useOctetStream: true, gzip: true }]) {
    await files.write('binary', binary.buffer, options)
    assert.deepEqual(await files.read('binary', { format: 'bytes' }), binary, JSON.stringify(options))
  }
  assert.equal((await files.read('binary', { format: 'blob' })).size, binary.length)
  let streamed = 0
  for await (const piece of await files.read('binary', { format: 'stream' })) streamed += piece.length
  assert.equal(streamed, binary.length)
  const written = await files.writeFiles([{ path: 'many/1', data: '1' }, { path: 'many/2', data: '2' }])
  assert.deepEqual(written.map((one) => one.name), ['1', '2'])
  await files.write('noted', 'x', { metadata: { author: 'a' } })
  assert.deepEqual((await files.getInfo('noted')).metadata, { author: 'a' })
  assert.equal((await files.rename('noted', 'moved/away')).path, '/home/user/moved/away')
  assert.deepEqual([await files.makeDir('deep/er'), await files.makeDir('deep/er')], [true, false])
  await files.write('deep/er/f', '1')
  assert.deepEqual((await files.list('deep', { depth: 2 })).map((one) => one.name), ['er', 'f'])
  assert.deepEqual([await files.exists('deep'), await files.exists('nothing')], [true, false])
  await files.remove('deep')
  assert.equal(await files.exists('deep'), false)
  await fails(files.read('nothing'), e2b.NotFoundError)

  await files.makeDir('watched')
  const names = []
  const watched = await files.watchDir('watched', (event) => names.push(event.name), { recursive: true })
  await files.write('watched/one', 'x')
  await until('the event', () => names.includes('one'))
  await watched.stop()

  const address = await sandbox.downloadUrl('many/1', { useSignatureExpiration: 60_000 })
  assert.equal(await (await fetch(address)).text(), '1')
  assert.equal((await fetch(address.replace('many%2F1', 'noted'))).status, 401)
  const form = new FormData()
  form.append('file', new Blob(['by form']), 'x')
  assert.equal((await fetch(await sandbox.uploadUrl('signed'), { method: 'POST', body: form })).status, 200)
  assert.equal(await files.read('signed'), 'by form')

  await git.init('one', { initialBranch: 'main' })
  await git.configureUser('me', 'me@example.com')
  await files.write('one/a', '1')
  await git.add('one')
  await git.commit('one', 'first')
  assert.equal((await git.status('one')).isClean, true)
  assert.deepEqual((await git.branches('one')).branches, ['main'])
  await sandbox.kill()
}

async function interpreter() {
  const sandbox = await Interpreter.create({ timeoutMs: 300_000, envs: { GIVEN: 'by the sandbox' } })
  const run = (code, options) => sandbox.runCode(code, options)
  assert.equal((await run('x = 6; x * 7')).text, '42')
  assert.equal((await run("import os; os.environ['GIVEN'] + str(x)")).text, 'by the sandbox6')
  assert.equal((await run("os.environ['FOR_ONE']", { envs: { FOR_ONE: '1' } })).text, '1')
  const lines = []
  const done = await run("print('a')", { onStdout: (line) => lines.push(line.line) })
  assert.deepEqual([done.logs.stdout, lines], [['a\n'], ['a\n']])
  assert.equal((await run('1 / 0')).error.name, 'ZeroDivisionError')
  const plot = await run('import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.show()')
  assert(plot.results[0].png)
  assert.equal(plot.results[0].chart.type, 'line')
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  assert.equal((await run('import os; z = 1; os.getcwd()', { context })).text, '/tmp')
  await sandbox.restartCodeContext(context)
  assert.equal((await run('z', { context })).error.name, 'NameError')
  assert((await sandbox.listCodeContexts()).some((one) => one.id === context.id))
  await sandbox.removeCodeContext(context)
  assert(!(await sandbox.listCodeContexts()).some((one) => one.id === context.id))
  assert.equal((await run('const a = 2; a * 21', { language: 'js' })).text, '42')
  assert.equal((await run('const b: number = 4; b + 1', { language: 'ts' })).text, '5')
  assert.deepEqual((await run('echo $((6 * 7))', { language: 'bash' })).logs.stdout, ['42\n'])
  await fails(run('import time; time.sleep(600)', { timeoutMs: 1000 }), e2b.TimeoutError)
  assert.equal((await run('x', { timeoutMs: 30_000 })).text, '6')
  await sandbox.kill()
}

await controlPlane()
await commands()
await files()
await interpreter()
console.log('done')
