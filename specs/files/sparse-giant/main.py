with open("giant", "wb") as f:
    f.truncate(1 << 40)
