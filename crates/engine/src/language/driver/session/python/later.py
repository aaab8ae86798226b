

def later(importer, module, name, *others):
    """Imports `importer` without the module of which it wants one function, and that hardly ever: the module comes when somebody
    calls the function. Programs that never imported it, and find it in its package all the same because everybody's IPython has
    it there, go on to find it, and what else it would have brought into the package."""
    if importer in sys.modules or module in sys.modules:
        return
    package = module.rpartition(".")[0]
    real = lambda: importlib.import_module(module)
    stand_in = type(sys)(module)

    def forget():
        if sys.modules.get(module) is stand_in:
            del sys.modules[module]

    def anything(wanted):
        if wanted.startswith("__"):
            # Python itself asks for these of every module.
            raise AttributeError(wanted)
        forget()
        return getattr(real(), wanted)

    def part(wanted):
        if f"{package}.{wanted}" in (module, *others):
            return importlib.import_module(f"{package}.{wanted}")
        raise AttributeError(f"module {package!r} has no attribute {wanted!r}")

    setattr(stand_in, name, lambda *given, **named: getattr(real(), name)(*given, **named))
    stand_in.__getattr__ = anything
    try:
        # The package itself is the one that Python has, whatever a user's own is called later.
        importlib.import_module(package).__getattr__ = part
        sys.modules[module] = stand_in
        importlib.import_module(importer)
    except ImportError:
        # Whoever needs it is told.
        pass
    finally:
        forget()


def import_ahead():
    """What IPython imports, less what hardly anybody needs: a tenth of the time that it takes."""
    later("pathlib", "urllib.parse", "quote_from_bytes")
    later("traitlets.config.application", "logging.config", "dictConfig", "logging.handlers")
    import IPython.core.interactiveshell
