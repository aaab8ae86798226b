# ok-asyncio  [benign]
# Tries: nothing hostile: asyncio: tasks, queues, subprocesses, a server and clients on its own
# loopback, executors
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import asyncio
async def main():
    async def serve(r, w):
        w.write((await r.readline()).upper())
        await w.drain()
        w.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async def ask(i):
        r, w = await asyncio.open_connection("127.0.0.1", port)
        w.write(b"hello %d\n" % i)
        line = await r.readline()
        w.close()
        return line
    assert await asyncio.gather(*(ask(i) for i in range(20))) == [b"HELLO %d\n" % i for i in range(20)]
    p = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
    assert (await p.communicate())[0] == b"x\n"
    assert await asyncio.to_thread(sum, [1, 2]) == 3
    server.close()
asyncio.run(main())
print("BENIGN-OK")
