SIZES = (50, 40, 5)


def packets(seeds):
    if seeds < 0 or seeds % 5:
        raise ValueError("no packets for this number")
    best = {0: []}
    for number in range(5, seeds + 1, 5):
        smaller = [best[number - size] + [size] for size in SIZES if number >= size]
        best[number] = min(smaller, key=len)
    return sorted(best[seeds], reverse=True)
