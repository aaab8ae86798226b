import sys
sys.excepthook = lambda *a: print("hook", a[0].__name__)
1 / 0
