import multiprocessing as mp
def square(x):
    return x * x
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with mp.get_context(method).Pool(2) as pool:
            print(method, pool.map(square, range(4)))
