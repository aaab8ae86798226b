

def calm():
    """Spares forks what modules do in each of them. Gives what each has to call for it."""
    wake_threading, seed = calm_threading(), calm_random()

    def wake():
        wake_threading()
        seed()

    return wake


def calm_threading():
    """Without other threads there are none to forget. From 3.13 on it does other things too, and is left alone."""
    threading = sys.modules.get("threading")
    hook = getattr(threading, "_after_fork", None)
    if hook is None or sys.version_info >= (3, 13) or threading.active_count() > 1:
        return nothing
    kept, hook.__code__ = hook.__code__, nothing.__code__

    def wake():
        hook.__code__ = kept

    return wake


def calm_random():
    """Every fork has a seed of its own, but asks the generator itself for it: `seed` looks at what it might have been given."""
    random = sys.modules.get("random")
    hook = getattr(getattr(random, "Random", None), "seed", None)
    if getattr(getattr(hook, "__code__", None), "co_freevars", None) != ("__class__",):
        return nothing
    try:
        shared = random._inst
        seed = super(random.Random, shared).seed
    except (AttributeError, TypeError):
        # Somebody has put his own in its place.
        return nothing
    kept, hook.__code__ = hook.__code__, unseeded().__code__

    def wake():
        hook.__code__ = kept
        seed()
        if shared.gauss_next is not None:
            shared.gauss_next = None

    return wake


def unseeded():
    __class__ = None

    def seed(self, a=None, version=2):
        return None and __class__

    return seed


def nothing():
    pass
