def fail():
    return {}["x"]
