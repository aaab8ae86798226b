"""How low the function is at the point that a program returns; the function is computed here, not there."""
import importlib.util
import math


def function(x, y):
    return math.sin(x) * math.cos(y) + math.sin(x * y) + (x * x + y * y) / 20


def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    x, y = (float(number) for number in program.search())
    if not (abs(x) <= 5 and abs(y) <= 5):
        return {"combined_score": -100.0, "error": "the point must lie between -5 and 5"}
    return {"combined_score": -function(x, y), "x": x, "y": y}
