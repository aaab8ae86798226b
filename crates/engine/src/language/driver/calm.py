

def calm_threading():
    """Spares forks what `threading` does in each of them to forget other threads, where there are none. Gives what makes
    it remember; from 3.13 on it does other things too, and is left alone."""
    threading = sys.modules.get("threading")
    hook = getattr(threading, "_after_fork", None)
    if hook is None or sys.version_info >= (3, 13) or threading.active_count() > 1:
        return nothing
    kept, hook.__code__ = hook.__code__, nothing.__code__

    def wake():
        hook.__code__ = kept

    return wake


def nothing():
    pass
