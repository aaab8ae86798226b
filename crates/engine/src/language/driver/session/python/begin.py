

# The rest of the driver, for when all that it needs is there.
DRIVER = compiled_beside("<saggar>", lambda: REST)
# All that is ever needed, now: later a module of the user's could have the same name.
import __future__, ast, binascii, builtins, codecs, fcntl, gc, importlib.machinery, importlib.util, io, json, linecache, os
import select, signal, site, struct, subprocess, sys, termios, textwrap, traceback, warnings, _thread
